//! What the installed header declares: names read from its text, numbers printed by a C program.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::declared::Item;

/// The declarations of a folder `include` that holds `plait/plait.h`.
pub struct Header {
    include: PathBuf,
    pub structs: Vec<(String, Vec<String>)>,
    pub opaque: Vec<String>,
    pub constants: Vec<String>,
    pub functions: Vec<String>,
}

const FILES: [&str; 2] = ["plait.h", "plait_experimental.h"];

fn without_comments(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some(begin) = rest.find("/*") {
        code += &rest[..begin];
        rest = rest[begin..]
            .split_once("*/")
            .expect("a comment has an end")
            .1;
    }
    code + rest
}

fn last_word(text: &str) -> String {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let end = text.rfind(is_name).map_or(0, |at| at + 1);
    let begin = text[..end].rfind(|c| !is_name(c)).map_or(0, |at| at + 1);
    text[begin..end].to_string()
}

/// The names of a declaration of fields: `int64_t a, b`, `const char *a, *b`, `void(PLAIT_CALL* a)(…)`.
fn field_names(declaration: &str) -> Vec<String> {
    match declaration.split_once("(PLAIT_CALL*") {
        Some((_, callback)) => vec![last_word(callback.split(')').next().unwrap())],
        None => declaration.split(',').map(last_word).collect(),
    }
}

impl Header {
    pub fn read(include: &Path) -> Header {
        let read = |name| fs::read_to_string(include.join("plait").join(name)).unwrap();
        let code = without_comments(&FILES.map(read).concat());
        let (mut structs, mut opaque, mut functions) = (Vec::new(), Vec::new(), Vec::new());
        let mut constants: Vec<String> = Vec::new();
        for rest in code.split("typedef struct ").skip(1) {
            let end = rest.find([';', '{']).unwrap();
            if rest[end..].starts_with(';') {
                opaque.push(last_word(&rest[..end]));
                continue;
            }
            let body = &rest[end + 1..rest.find('}').unwrap()];
            let declarations = body.split(';').filter(|text| !text.trim().is_empty());
            structs.push((
                last_word(&rest[..end]),
                declarations.flat_map(field_names).collect(),
            ));
        }
        for rest in code.split("enum {").skip(1) {
            let values = rest.split('}').next().unwrap().split(',');
            let names = values
                .filter_map(|value| value.split_once('='))
                .map(|(name, _)| name);
            constants.extend(names.map(last_word));
        }
        let define = |line: &str| {
            line.trim()
                .strip_prefix("#define PLAIT_")
                .map(str::to_string)
        };
        let versions = code
            .lines()
            .filter_map(define)
            .filter(|line| line.contains("VERSION"));
        constants.extend(versions.map(|line| format!("PLAIT_{}", line.split(' ').next().unwrap())));
        let is_plain = |line: &&str| !line.trim_start().starts_with('#');
        let plain = code.lines().filter(is_plain).collect::<Vec<_>>().join("\n");
        for rest in plain.split("PLAIT_API ").skip(1) {
            functions.push(last_word(rest.split('(').next().unwrap()));
        }
        Header {
            include: include.to_path_buf(),
            structs,
            opaque,
            constants,
            functions,
        }
    }

    /// Compiles and runs `source`, C without the lines that include the header.
    fn compile(&self, source: &str, options: &[&str]) -> (Output, PathBuf) {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("layout_{number}"));
        let path = program.with_extension("c");
        let includes = FILES
            .map(|name| format!("#include <plait/{name}>\n"))
            .concat();
        let system = "#include <stddef.h>\n#include <stdio.h>\n";
        fs::write(&path, format!("{system}{includes}{source}")).unwrap();
        let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_string());
        let mut command = Command::new(compiler);
        command
            .args(["-Wall", "-Werror", "-I"])
            .arg(&self.include)
            .args(options);
        (
            command
                .arg(&path)
                .arg("-o")
                .arg(&program)
                .output()
                .expect("a C compiler"),
            program,
        )
    }

    /// `name value` of every struct, field and constant.
    pub fn numbers(&self) -> Vec<String> {
        let mut source = "int main(void) {\n".to_string();
        let mut print = |name: &str, value: &str| {
            source += &format!("  printf(\"%s %lld\\n\", \"{name}\", (long long)({value}));\n");
        };
        for (name, fields) in &self.structs {
            print(name, &format!("sizeof({name})"));
            for field in fields {
                print(
                    &format!("{name}.{field}"),
                    &format!("offsetof({name}, {field})"),
                );
            }
        }
        self.constants.iter().for_each(|name| print(name, name));
        let (output, program) = self.compile(&(source + "  return 0;\n}\n"), &[]);
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let printed = Command::new(program).output().unwrap();
        String::from_utf8(printed.stdout)
            .unwrap()
            .lines()
            .map(str::to_string)
            .collect()
    }

    /// What a C compiler says to the same functions and fields, declared once more.
    pub fn conflicts(&self, functions: &[Item], structs: &[Item]) -> Vec<String> {
        let mut source = String::new();
        for Item {
            name,
            parts,
            result,
        } in functions
        {
            let types: Vec<&str> = parts.iter().map(|part| part.1.as_str()).collect();
            let list = if types.is_empty() {
                "void".to_string()
            } else {
                types.join(", ")
            };
            source += &format!("{result} {name}({list});\n");
        }
        for item in structs {
            let name = &item.name;
            for (field, kind) in &item.parts {
                source += &format!(
                    "_Static_assert(__builtin_types_compatible_p(__typeof__((({name}*)0)->{field}), \
                     {kind}), \"{name}.{field} is no {kind}\");\n"
                );
            }
        }
        let (output, _) = self.compile(&source, &["-c"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        said.lines()
            .filter(|line| line.contains("error:"))
            .map(str::to_string)
            .collect()
    }
}
