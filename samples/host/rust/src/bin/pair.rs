//! One of two processes that train together, one rank each. They meet by cards, which each puts into a
//! folder that both see.
//!
//!     pair CONFIG TEXT RANK DIRECTORY [--steps N]
//!
//! The layout is two replicas, whatever CONFIG says. Prints the losses in one line, as `train` does;
//! both processes print the same. Exit codes: 0 done, 1 an error, 2 usage.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{env, fs};

use plait::{Batch, Config, Context, Engine, Group, Scope};
use plait_sample::{line, load, number, Outcome, Text};

/// How long to wait for the other process.
const LIMIT: Duration = Duration::from_secs(30);

struct Arguments {
    config: PathBuf,
    text: PathBuf,
    rank: i32,
    directory: PathBuf,
    /// None: as `run.steps` of the configuration says.
    steps: Option<i64>,
}

/// None where the command line is wrong.
fn read_arguments() -> Option<Arguments> {
    let mut words = env::args_os().skip(1);
    let mut arguments = Arguments {
        config: words.next()?.into(),
        text: words.next()?.into(),
        rank: words
            .next()?
            .to_str()?
            .parse()
            .ok()
            .filter(|rank| (0..2).contains(rank))?,
        directory: words.next()?.into(),
        steps: None,
    };
    if let Some(option) = words.next() {
        let steps = words.next()?.to_str()?.parse().ok()?;
        arguments.steps = Some(steps).filter(|steps| option == "--steps" && *steps > 0);
        arguments.steps?;
    }
    words.next().is_none().then_some(arguments)
}

/// Shows the own card and adds both.
fn meet(group: &mut Group, rank: i32, directory: &Path) -> Outcome<()> {
    let place = |rank: i32| directory.join(format!("card.{rank}"));
    let unfinished = directory.join(format!("unfinished.{rank}"));
    fs::write(&unfinished, &*group.card()?)?;
    fs::rename(&unfinished, place(rank))?;
    let begin = Instant::now();
    while !place(1 - rank).exists() {
        if begin.elapsed() > LIMIT {
            return Err(format!("rank {} did not come", 1 - rank).into());
        }
        sleep(Duration::from_millis(10));
    }
    for rank in 0..2 {
        group.add_card(&fs::read(place(rank))?)?;
    }
    Ok(group.commit(Some(LIMIT))?)
}

fn train(arguments: &Arguments) -> Outcome<()> {
    let context = Context::new()?;
    let mut config = Config::new(&context)?;
    load(&mut config, &arguments.config)?;
    for (axis, degree) in [("tensor", "1"), ("pipeline", "1"), ("data", "2")] {
        config.set(&format!("layout.{axis}"), degree)?;
    }
    let steps = arguments
        .steps
        .map_or_else(|| number(&config, "run.steps"), Ok)?;
    let text = Text::read(&arguments.text)?;
    let mut group = Group::new(&context, &config, arguments.rank, 1, 2)?;
    meet(&mut group, arguments.rank, &arguments.directory)?;
    let mut engine = Engine::new(&mut group, &config, None)?;
    let mut batch = Batch::new(&engine, Scope::GLOBAL)?;
    let mut losses = Vec::new();
    for _ in 0..steps {
        text.fill(&mut batch, &engine.batch_spec()?)?;
        let step = engine.step(Some(&batch), None)?;
        let metrics = step.metrics();
        eprintln!("step {}/{steps} loss {:.4}", metrics.step, metrics.loss);
        losses.push(metrics.loss);
    }
    println!("{}", line(&losses));
    Ok(engine.close(None)?)
}

fn main() -> ExitCode {
    let arguments = match read_arguments() {
        Some(arguments) => arguments,
        None => {
            eprintln!("usage: pair CONFIG TEXT RANK DIRECTORY [--steps N]");
            return ExitCode::from(2);
        }
    };
    match train(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pair: {error}");
            ExitCode::FAILURE
        }
    }
}
