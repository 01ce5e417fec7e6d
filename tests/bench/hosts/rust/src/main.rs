//! What a call costs in Rust, and where a batch is filled; see `../calls.c`.
//!
//!     calls CONFIG time CALLS TURNS
//!     calls CONFIG feed STEPS

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;
use std::{env, fs};

use plait::{Batch, Config, Context, Engine, EngineState, Group, Scope};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Nanoseconds of a call of each turn; `call` tells whether its answer was right.
fn times(calls: u32, turns: u32, call: impl Fn() -> bool) -> Outcome<Vec<f64>> {
    (0..turns)
        .map(|_| {
            let begin = Instant::now();
            let right = (0..calls).filter(|_| call()).count();
            let took = begin.elapsed();
            if right != calls as usize {
                return Err("a call gave a wrong answer".into());
            }
            Ok(took.as_nanos() as f64 / f64::from(calls))
        })
        .collect()
}

fn fill(tokens: &mut [i32], step: usize) {
    for (i, token) in tokens.iter_mut().enumerate() {
        *token = ((step + i) % 256) as i32;
    }
}

/// Bytes of a batch, and where that of each step was mapped.
fn feed(engine: &mut Engine, steps: usize) -> Outcome<(usize, Vec<usize>)> {
    let mut batch = Batch::new(engine, Scope::GLOBAL)?;
    let spec = engine.batch_spec()?;
    let (rows, columns) = (spec.global_rows, spec.sequence_length + 1);
    let mut addresses = Vec::new();
    for step in 0..steps {
        let tokens = batch.map("tokens", rows, columns)?;
        fill(tokens, step);
        addresses.push(tokens.as_ptr() as usize);
        let _ = engine.step(Some(&batch), None)?;
    }
    let mut own = vec![0; (rows * columns) as usize];
    fill(&mut own, steps);
    batch.set("tokens", &own, rows)?;
    let _ = engine.step(Some(&batch), None)?;
    Ok((4 * own.len(), addresses))
}

fn run(arguments: &[String]) -> Outcome<bool> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if !matches!(words[..], [_, "time", _, _] | [_, "feed", _]) {
        eprintln!("usage: calls CONFIG time CALLS TURNS | calls CONFIG feed STEPS");
        return Ok(false);
    }
    let context = Context::new()?;
    let mut config = Config::new(&context)?;
    config.load(&fs::read_to_string(words[0])?)?;
    let mut group = Group::new(&context, &config, 0, 1, 1)?;
    let mut engine = Engine::new(&mut group, &config, None)?;
    if words[1] == "time" {
        let (calls, turns) = (words[2].parse()?, words[3].parse()?);
        let state = times(calls, turns, || engine.state() == EngineState::READY)?;
        let wanted = plait::version();
        let version = times(calls, turns, || plait::version() == wanted)?;
        println!("{{\"state\": {state:?}, \"version\": {version:?}}}");
    } else {
        let (bytes, addresses) = feed(&mut engine, words[2].parse()?)?;
        println!("{{\"bytes\": {bytes}, \"addresses\": {addresses:?}}}");
    }
    Ok(true)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(2),
        Err(error) => {
            eprintln!("calls: {error}");
            ExitCode::FAILURE
        }
    }
}
