package plait_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"strings"
	"testing"
)

func TestEveryExportedNameIsDocumented(t *testing.T) {
	files := token.NewFileSet()
	packages, err := parser.ParseDir(files, ".", func(file fs.FileInfo) bool {
		return !strings.HasSuffix(file.Name(), "_test.go")
	}, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	want := func(name *ast.Ident, docs ...*ast.CommentGroup) {
		if !name.IsExported() {
			return
		}
		seen++
		for _, doc := range docs {
			if doc != nil {
				return
			}
		}
		t.Errorf("%s: %s is not documented", files.Position(name.Pos()), name.Name)
	}
	for _, file := range packages["plait"].Files {
		for _, declaration := range file.Decls {
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				want(d.Name, d.Doc)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.TypeSpec:
						want(s.Name, d.Doc, s.Doc)
					case *ast.ValueSpec:
						want(s.Names[0], d.Doc, s.Doc, s.Comment)
					}
				}
			}
		}
	}
	if seen < 150 {
		t.Errorf("only %d exported names were found", seen)
	}
}
