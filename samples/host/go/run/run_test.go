package run

import (
	"bytes"
	"fmt"
	"math"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const printer = `#include <stdio.h>
int main(void) {
  double value;
  while (fread(&value, sizeof value, 1, stdin) == 1) printf("%.17g\n", value);
  return 0;
}
`

func TestNumbersAreWrittenAsByC(t *testing.T) {
	values := []float64{0, math.Copysign(0, -1), 1, 10, 12, 100, 123456, 1e15, 1e16, 1e17, 1e22, 0.1, 0.5, 0.001,
		0.0001, 0.00012345, 0.00001, 1e-7, 5.5, 10.25, 11.1, 99.99, 4.1234, 1.0 / 3, 5e-324, math.MaxFloat64, -2.5}
	random := rand.New(rand.NewSource(7))
	for i := 0; i < 5000; i++ {
		values = append(values, random.Float64(), 10+10*random.Float64(), math.Float64frombits(random.Uint64()))
	}
	var bits bytes.Buffer
	var own strings.Builder
	for _, value := range values {
		if math.IsNaN(value) || math.IsInf(value, 0) {
			continue // no loss: the library makes an error of it
		}
		for i := 0; i < 64; i += 8 {
			bits.WriteByte(byte(math.Float64bits(value) >> i))
		}
		fmt.Fprintln(&own, Line([]float64{value}))
	}
	directory := t.TempDir()
	source, program := filepath.Join(directory, "print.c"), filepath.Join(directory, "print")
	if err := os.WriteFile(source, []byte(printer), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cc", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	command := exec.Command(program)
	command.Stdin = &bits
	printed, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	if string(printed) != own.String() {
		mine, theirs := strings.Split(own.String(), "\n"), strings.Split(string(printed), "\n")
		for i := range mine {
			if i >= len(theirs) || mine[i] != theirs[i] {
				t.Fatalf("number %d is %s", i, mine[i])
			}
		}
	}
}
