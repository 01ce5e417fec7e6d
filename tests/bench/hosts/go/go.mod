module plait.dev/tests/bench/hosts/go

go 1.19

require plait.dev/plait v0.1.0

replace plait.dev/plait => ../../../../bindings/go
