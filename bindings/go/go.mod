module plait.dev/plait

go 1.19
