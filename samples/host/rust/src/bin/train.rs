//! Trains on the bytes of a file, which it holds in memory. The same program stands in every host
//! language under samples/host, and all of them print the same line.
//!
//!     train CONFIG TEXT [--steps N] [--checkpoint ROOT] [--resume]
//!
//! Progress goes to stderr; the losses go to stdout, in one line. SIGINT and SIGTERM end the run after
//! the step in progress; with --checkpoint the state is saved then, as it is at the end. Exit codes: 0
//! done, 1 an error, 2 usage, 3 stopped.

use std::env;
use std::os::raw::c_int;
use std::path::PathBuf;
use std::process::ExitCode;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use plait::{Batch, Config, Context, Engine, Group, Scope, Stopper};
use plait_sample::{line, load, number, Outcome, Text};

/// What the command line says.
#[derive(Default)]
struct Arguments {
    paths: Vec<PathBuf>,
    /// None: as `run.steps` of the configuration says.
    steps: Option<i64>,
    root: Option<PathBuf>,
    is_resumed: bool,
}

/// None where the command line is wrong.
fn read_arguments() -> Option<Arguments> {
    let mut arguments = Arguments::default();
    let mut words = env::args_os().skip(1);
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("--resume") => arguments.is_resumed = true,
            Some("--steps") => arguments.steps = Some(words.next()?.to_str()?.parse().ok()?),
            Some("--checkpoint") => arguments.root = Some(words.next()?.into()),
            Some(option) if option.starts_with('-') => return None,
            _ => arguments.paths.push(word.into()),
        }
    }
    let is_whole = arguments.paths.len() == 2 && arguments.steps.map_or(true, |steps| steps > 0);
    (is_whole && (arguments.root.is_some() || !arguments.is_resumed)).then_some(arguments)
}

/// What a signal stops.
static RUNNING: AtomicPtr<Stopper> = AtomicPtr::new(ptr::null_mut());

extern "C" fn on_signal(_: c_int) {
    // SAFETY: null, or a stopper that lives as long as the process.
    if let Some(stopper) = unsafe { RUNNING.load(Ordering::SeqCst).as_ref() } {
        stopper.request_stop();
    }
}

extern "C" {
    fn signal(number: c_int, handler: extern "C" fn(c_int)) -> usize;
}

fn stop_on_signals(stopper: Stopper) {
    const SIGINT: c_int = 2;
    const SIGTERM: c_int = 15;
    RUNNING.store(Box::into_raw(Box::new(stopper)), Ordering::SeqCst);
    // SAFETY: the handler does nothing but atomic operations.
    unsafe {
        signal(SIGINT, on_signal);
        signal(SIGTERM, on_signal);
    }
}

/// Trains up to the last step; true where a stop came first.
fn train(arguments: &Arguments) -> Outcome<bool> {
    let context = Context::new()?;
    let mut config = Config::new(&context)?;
    load(&mut config, &arguments.paths[0])?;
    let steps = arguments
        .steps
        .map_or_else(|| number(&config, "run.steps"), Ok)?;
    let degree = |axis: &str| number(&config, &format!("layout.{axis}"));
    let world = i32::try_from(degree("tensor")? * degree("pipeline")? * degree("data")?)?;
    let text = Text::read(&arguments.paths[1])?;
    let mut group = Group::new(&context, &config, 0, world, world)?;
    let mut engine = Engine::new(&mut group, &config, None)?;
    let mut batch = Batch::new(&engine, Scope::GLOBAL)?;
    stop_on_signals(engine.stopper());

    if let (Some(root), true) = (&arguments.root, arguments.is_resumed) {
        if engine.load(root, None)?.is_none() {
            println!(); // stopped: nothing was loaded, and nothing is saved over it
            return Ok(true);
        }
    }
    let (mut losses, mut is_stopped) = (Vec::new(), false);
    let mut spec = engine.batch_spec()?;
    while !is_stopped && spec.first_sample / spec.global_rows < steps {
        text.fill(&mut batch, &spec)?;
        let step = engine.step(Some(&batch), None)?;
        let metrics = step.metrics();
        eprintln!(
            "step {}/{steps} loss {:.4} | {:.0} tokens/s",
            metrics.step, metrics.loss, metrics.tokens_per_second
        );
        losses.push(metrics.loss);
        is_stopped = step.is_stopped();
        spec = engine.batch_spec()?;
    }
    if let Some(root) = &arguments.root {
        engine.save(root, None)?.wait(None)?;
    }
    println!("{}", line(&losses));
    engine.close(None)?;
    Ok(is_stopped)
}

fn main() -> ExitCode {
    let arguments = match read_arguments() {
        Some(arguments) => arguments,
        None => {
            eprintln!("usage: train CONFIG TEXT [--steps N] [--checkpoint ROOT] [--resume]");
            return ExitCode::from(2);
        }
    };
    match train(&arguments) {
        Ok(is_stopped) => ExitCode::from(if is_stopped { 3 } else { 0 }),
        Err(error) => {
            eprintln!("train: {error}");
            ExitCode::FAILURE
        }
    }
}
