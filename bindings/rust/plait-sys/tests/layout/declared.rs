//! What this crate declares: read from its sources, but for sizes and offsets, which rustc tells.

use std::mem::{size_of, MaybeUninit};
use std::ptr::addr_of;

use plait_sys::*;

const SOURCES: [&str; 10] = [
    include_str!("../../src/checkpoint.rs"),
    include_str!("../../src/constants.rs"),
    include_str!("../../src/context.rs"),
    include_str!("../../src/data.rs"),
    include_str!("../../src/engine.rs"),
    include_str!("../../src/experimental.rs"),
    include_str!("../../src/group.rs"),
    include_str!("../../src/handles.rs"),
    include_str!("../../src/library.rs"),
    include_str!("../../src/structs.rs"),
];

/// A declaration that has parts: a struct with its fields, a function with its parameters.
pub struct Item {
    pub name: String,
    /// Name and type of each part, the type in C.
    pub parts: Vec<(String, String)>,
    /// Of a function.
    pub result: String,
}

/// The sources without comments.
fn code() -> String {
    let lines = SOURCES.iter().flat_map(|source| source.lines());
    let code = lines.map(|line| line.split("//").next().unwrap());
    code.collect::<Vec<_>>().join("\n")
}

/// A type of the sources as C writes it.
fn c_type(rust: &str) -> String {
    let rust = rust.trim();
    if let Some(pointer) = rust.strip_prefix("Option<unsafe extern \"C\" fn(") {
        let end = pointer.rfind(')').unwrap();
        let result = pointer[end + 1..].trim_end_matches('>').trim();
        let parameters: Vec<String> = parts(&pointer[..end])
            .into_iter()
            .map(|part| part.1)
            .collect();
        return format!("{}(*)({})", c_result(result), parameters.join(", "));
    }
    if let Some(target) = rust.strip_prefix("*mut ") {
        return c_type(target) + "*";
    }
    if let Some(target) = rust.strip_prefix("*const ") {
        return format!("const {}*", c_type(target));
    }
    match rust {
        "i32" => "int32_t",
        "i64" => "int64_t",
        "f64" => "double",
        "c_char" => "char",
        "c_void" => "void",
        other => other,
    }
    .to_string()
}

/// What stands after the parameters, `-> T` or nothing.
fn c_result(rust: &str) -> String {
    rust.trim()
        .strip_prefix("->")
        .map_or_else(|| "void".to_string(), c_type)
}

/// `name: type, …`, where a type may hold commas in parentheses.
fn parts(list: &str) -> Vec<(String, String)> {
    let mut depth = 0;
    let cut = |c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    };
    let parts = list
        .split(cut)
        .map(str::trim)
        .filter(|part| !part.is_empty());
    let named = parts.map(|part| part.trim_start_matches("pub ").split_once(':').unwrap());
    named
        .map(|(name, kind)| (name.trim_start_matches("r#").to_string(), c_type(kind)))
        .collect()
}

pub fn structs() -> Vec<Item> {
    let code = code();
    let bodies = code
        .split("pub struct ")
        .skip(1)
        .filter(|rest| rest.starts_with("plait_"));
    let item = |rest: &str| {
        let (name, rest) = rest.split_once('{').unwrap();
        let body: Vec<&str> = rest[..rest.find("\n}").unwrap()]
            .split_whitespace()
            .collect();
        // The type of a callback may stand on several lines, with a comma after its last part.
        let body = body.join(" ").replace("< ", "<").replace("( ", "(");
        let body = body.replace(", )", ")").replace(", >", ">");
        Item {
            name: name.trim().to_string(),
            parts: parts(&body),
            result: String::new(),
        }
    };
    bodies.map(item).collect()
}

pub fn functions() -> Vec<Item> {
    let code = code();
    let item = |rest: &str| {
        let (name, rest) = rest.split_once('(').unwrap();
        let (list, result) = rest[..rest.find(';').unwrap()].split_once(')').unwrap();
        Item {
            name: name.to_string(),
            parts: parts(list),
            result: c_result(result),
        }
    };
    code.split("pub fn ").skip(1).map(item).collect()
}

pub fn opaque() -> Vec<String> {
    let code = code();
    let list = code
        .split("opaque! {")
        .nth(1)
        .unwrap()
        .split('}')
        .next()
        .unwrap();
    list.split(',')
        .map(|name| name.trim().to_string())
        .filter(|name| !name.is_empty())
        .collect()
}

/// `NAME value`, as the C program prints it. Every value but that of PLAIT_API_VERSION is a literal.
pub fn constants() -> Vec<String> {
    let code = code();
    let line = |rest: &str| {
        let (name, rest) = rest.split_once(':').unwrap();
        let value = rest[..rest.find(';').unwrap()]
            .split_once('=')
            .unwrap()
            .1
            .trim();
        match value.parse::<i64>() {
            Ok(value) => format!("{name} {value}"),
            Err(_) => format!("{name} {}", PLAIT_API_VERSION),
        }
    };
    code.split("pub const ").skip(1).map(line).collect()
}

/// `struct size` and `struct.field offset`, as the C program prints them.
pub fn layout() -> Vec<String> {
    let mut lines = Vec::new();
    macro_rules! layout {
        ($($name:ident { $($field:ident),* })*) => {$(
            lines.push(format!("{} {}", stringify!($name), size_of::<$name>()));
            let memory = MaybeUninit::<$name>::uninit();
            let base = memory.as_ptr();
            $(
                // SAFETY: `base` points at memory of the struct; nothing is read.
                let offset = unsafe { addr_of!((*base).$field) } as usize - base as usize;
                let field = stringify!($field).trim_start_matches("r#");
                lines.push(format!("{}.{} {}", stringify!($name), field, offset));
            )*
        )*};
    }
    layout! {
        plait_metrics {
            struct_size, valid, step, samples_total, tokens_total, skipped_total, tokens,
            targets, skipped, loss, grad_norm, lr, loss_scale, step_seconds, tokens_per_second,
            model_flops_per_second, forward_seconds, backward_seconds, communication_seconds,
            optimizer_seconds, bubble_seconds, data_seconds, memory_bytes, memory_peak_bytes,
            diverged_rank
        }
        plait_batch_spec {
            struct_size, valid, global_rows, local_rows, span_count, sequence_length,
            vocab_size, first_sample, needs
        }
        plait_plan_info {
            struct_size, valid, is_feasible, tensor, pipeline, data, interleave, zero,
            micro_batch, memory_bytes, memory_limit_bytes, step_seconds, tokens_per_second,
            bubble_share, model_flops_share, reason
        }
        plait_rank_info {
            struct_size, valid, tensor, pipeline, data, weight_bytes, gradient_bytes,
            optimizer_bytes, activation_bytes, communication_bytes, workspace_bytes,
            compute_seconds, communication_seconds, bubble_share
        }
        plait_key_info {
            struct_size, valid, key, r#type, default_value, minimum, maximum, choices, unit,
            doc, resume, flags
        }
        plait_entry_info {
            struct_size, valid, name, kind, dtype, dims, shape0, shape1, shape2, shape3,
            elements, digest, r#type, integer, real, text
        }
        plait_dataset_info {
            struct_size, valid, tokens, documents, samples, sequence_length, fingerprint
        }
        plait_progress {
            struct_size, valid, state, done_bytes, total_bytes
        }
        plait_log_record {
            struct_size, valid, time_ns, level, rank, subsystem, message, message_bytes
        }
        plait_host {
            struct_size, user, log, thread_start, thread_stop, reserved
        }
        plait_kv {
            struct_size, user, put, get, reserved
        }
    }
    lines
}
