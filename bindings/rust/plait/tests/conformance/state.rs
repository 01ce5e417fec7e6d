//! Batches, weights, checkpoints, data sets: what goes in comes out, and C reads the same bytes.

use std::fs;
use std::path::Path;

use plait::{Batch, Checkpoint, Code, Config, DType, Dataset, Disposition, Entry, Kind};
use plait::{OperationState, Property, Scope, Step, TensorInfo};

use crate::support::{fill, read_by_c, rig, Folder, Hash, COLUMNS, LIMIT, ROWS};

fn losses(rig: &mut crate::support::Rig, steps: usize) -> Vec<f64> {
    let step = |_| {
        rig.engine
            .step(Some(&rig.batch), LIMIT)
            .unwrap()
            .metrics()
            .loss
    };
    (0..steps).map(step).collect()
}

#[test]
fn a_mapped_batch_is_filled_in_place() {
    let (mut mapped, mut copied) = (rig(&[]), rig(&[]));
    let place = mapped.batch.map("tokens", ROWS, COLUMNS).unwrap().as_ptr();
    assert_eq!(place as usize % 64, 0);
    let mut values = mapped.batch.map("tokens", ROWS, COLUMNS).unwrap().to_vec();
    assert_eq!((values.len(), values[1]), (4 * 33, 8)); // what `fill` wrote
    for turn in 0..5 {
        values
            .iter_mut()
            .for_each(|value| *value = (*value * 3 + turn) % 256);
        let tokens = mapped.batch.map("tokens", ROWS, COLUMNS).unwrap();
        assert_eq!(tokens.as_ptr(), place);
        tokens.copy_from_slice(&values);
        copied.batch.set("tokens", &values, ROWS).unwrap();
        assert_eq!(losses(&mut mapped, 1), losses(&mut copied, 1));
    }
    mapped.batch.map("tokens", ROWS, COLUMNS).unwrap()[40] = -5;
    let error = mapped.engine.step(Some(&mapped.batch), LIMIT).unwrap_err();
    assert_eq!(error.word(), "token_range");
    assert!(error.details().contains("-5"), "{}", error.details());
}

#[test]
fn the_spec_tells_what_a_step_wants() {
    let mut rig = rig(&[]);
    let spec = rig.engine.batch_spec().unwrap();
    assert_eq!(
        (spec.global_rows, spec.local_rows, spec.first_sample),
        (4, 4, 0)
    );
    assert_eq!((spec.sequence_length, spec.vocab_size), (32, 256));
    assert!(spec.needs_tokens());
    let spans = rig.engine.batch_spans(8).unwrap();
    assert!(spans.len() == 1 && spans[0] == (0..8));
    losses(&mut rig, 2);
    assert_eq!(rig.engine.batch_spec().unwrap().first_sample, 8);
    let local = Batch::new(&rig.engine, Scope::from_number(7));
    assert_eq!(local.err().unwrap().code(), Code::INVALID_ARGUMENT);
}

#[test]
fn gradients_of_two_halves_make_one_step() {
    let (mut whole, mut halves) = (rig(&[]), rig(&[]));
    let tokens = whole.batch.map("tokens", ROWS, COLUMNS).unwrap().to_vec();
    let step = whole.engine.step(Some(&whole.batch), LIMIT).unwrap();
    let targets = step.metrics().targets;
    for (turn, half) in tokens.chunks(2 * 33).enumerate() {
        halves.batch.set("tokens", half, 2).unwrap();
        let done = halves
            .engine
            .forward_backward(&halves.batch, LIMIT)
            .unwrap();
        assert!(matches!(done, Step::Done(sums) if sums.targets == targets / [2, 1][turn]));
    }
    let update = halves.engine.optimizer_step(LIMIT).unwrap();
    assert!((update.metrics().grad_norm / step.metrics().grad_norm - 1.0).abs() < 1e-5);
    assert_eq!(update.metrics().step, 1);
}

#[test]
fn scores_are_the_losses_of_targets() {
    let mut rig = rig(&[]);
    let mut scores = vec![0.0; 4 * 32];
    assert!(rig.engine.score(&rig.batch, &mut scores, LIMIT).unwrap());
    let mean = scores.iter().map(|score| f64::from(*score)).sum::<f64>() / scores.len() as f64;
    let loss = rig
        .engine
        .evaluate(Some(&rig.batch), LIMIT)
        .unwrap()
        .unwrap()
        .loss;
    assert!((mean - loss).abs() < 1e-5, "{mean} {loss}");
    let short = rig
        .engine
        .score(&rig.batch, &mut scores[1..], LIMIT)
        .unwrap_err();
    assert_eq!(short.code(), Code::INVALID_ARGUMENT);

    // Targets that are ignored count for nothing.
    rig.batch.map("tokens", ROWS, COLUMNS - 1).unwrap().fill(1);
    let targets = rig.batch.map("targets", ROWS, COLUMNS - 1).unwrap();
    targets.fill(-1);
    targets[..10].fill(2);
    let metrics = rig
        .engine
        .evaluate(Some(&rig.batch), LIMIT)
        .unwrap()
        .unwrap();
    assert_eq!(metrics.targets, 10);
}

#[test]
fn an_operation_is_polled_while_the_engine_steps() {
    let (mut rig, folder) = (
        rig(&[("model.layers", "8"), ("model.hidden", "64")]),
        Folder::new(),
    );
    let operation = rig.engine.save(folder.path("root"), LIMIT).unwrap();
    let mut steps = 0;
    let progress = loop {
        steps += losses(&mut rig, 1).len();
        let progress = operation.progress().unwrap();
        if progress.state != OperationState::RUNNING {
            break progress;
        }
        if let Err(error) = operation.wait(Some(std::time::Duration::ZERO)) {
            assert_eq!(
                (error.code(), error.word()),
                (Code::DEADLINE_EXCEEDED, "deadline")
            );
            assert_eq!(error.disposition(), Disposition::RETRY);
        }
    };
    assert_eq!(progress.state, OperationState::DONE);
    assert!(
        progress.done_bytes > 0 && progress.done_bytes == progress.total_bytes,
        "{progress:?}"
    );
    operation.wait(LIMIT).unwrap();
    operation.cancel(); // too late
    assert!(operation.result().unwrap().contains("\"step\":0") && steps > 0);
}

#[test]
fn a_resumed_run_has_the_losses_of_one_that_was_not_interrupted() {
    let folder = Folder::new();
    let mut first = rig(&[]);
    losses(&mut first, 3);
    first
        .engine
        .save(folder.path("root"), LIMIT)
        .unwrap()
        .wait(LIMIT)
        .unwrap();
    let rest = losses(&mut first, 3);
    let mut second = rig(&[]);
    let report = second
        .engine
        .load(folder.path("root"), LIMIT)
        .unwrap()
        .unwrap();
    assert!(report.contains("\"step\":3"), "{report}");
    assert_eq!(losses(&mut second, 3), rest);
    drop(first); // one writer at a time
    second
        .engine
        .save(folder.path("root"), LIMIT)
        .unwrap()
        .wait(LIMIT)
        .unwrap();
    let list = Checkpoint::list(&second.context, folder.path("root")).unwrap();
    assert!(list.contains('3') && list.contains('6'), "{list}");
}

/// Number of entries, hash of the list, hash of the parameters: as `reader.c` prints them.
fn read_by_rust(path: &Path) -> Vec<String> {
    let context = plait::Context::new().unwrap();
    let checkpoint = Checkpoint::open(&context, path).unwrap();
    let (mut list, mut weights) = (Hash::new(), Hash::new());
    for entry in checkpoint.entries().unwrap() {
        match entry {
            Entry::Property(name, value) => {
                let (number, integer, text) = match &value {
                    Property::Integer(integer) => (1, *integer, ""),
                    Property::Real(_) => (2, 0, ""),
                    Property::Text(text) => (3, 0, text.as_str()),
                    other => panic!("{other:?}"),
                };
                list.feed(name.as_bytes());
                list.feed(text.as_bytes());
                list.feed(format!(" {number} {integer}\n").as_bytes());
            }
            Entry::Tensor(tensor) => {
                let TensorInfo {
                    name,
                    kind,
                    dtype,
                    elements,
                    digest,
                    ..
                } = &tensor;
                let (kind_number, digest) = (kind.number(), digest.unwrap());
                list.feed(name.as_bytes());
                let line = format!(" {kind_number} {} {elements} {digest}\n", dtype.number());
                list.feed(line.as_bytes());
                if *kind == Kind::PARAM {
                    weights.feed(checkpoint.map(name, *kind).unwrap());
                }
            }
            other => panic!("{other:?}"),
        }
    }
    vec![
        checkpoint.entry_count().to_string(),
        list.text(),
        weights.text(),
    ]
}

#[test]
fn weights_are_read_perturbed_and_written_as_c_reads_them() {
    let (mut rig, folder) = (rig(&[]), Folder::new());
    losses(&mut rig, 2);
    let mut hash = Hash::new();
    for tensor in rig.engine.tensors().unwrap() {
        if tensor.kind == Kind::GRADIENT {
            continue;
        }
        let count = tensor.shape.iter().product::<i64>();
        assert_eq!((count, tensor.dtype), (tensor.elements, DType::FLOAT32));
        let (name, kind) = (tensor.name.as_str(), tensor.kind);
        let mut values = vec![0.0; count as usize];
        rig.engine
            .read_tensor_f32(name, kind, &mut values, LIMIT)
            .unwrap();
        for (place, value) in values.iter_mut().enumerate() {
            *value = *value * 0.5 + (place % 7) as f32 / 64.0;
        }
        rig.engine
            .write_tensor_f32(name, kind, &values, LIMIT)
            .unwrap();
        // Read again as bytes, at an odd address.
        let mut bytes = vec![0; 4 * values.len() + 1];
        let data = Some(&mut bytes[1..]);
        rig.engine
            .read_tensor(name, kind, DType::FLOAT32, data, LIMIT)
            .unwrap();
        let written: Vec<u8> = values
            .iter()
            .flat_map(|value| value.to_ne_bytes())
            .collect();
        assert!(bytes[1..] == written, "{name} {kind:?}");
        if kind == Kind::PARAM {
            hash.feed(&written);
        }
    }
    rig.engine
        .read_tensor("none", Kind::PARAM, DType::FLOAT32, None, LIMIT)
        .unwrap_err();
    let root = folder.path("root");
    rig.engine.save(&root, LIMIT).unwrap().wait(LIMIT).unwrap();
    let by_c = read_by_c(&root);
    assert_eq!(by_c[2], hash.text());
    assert_eq!(by_c, read_by_rust(&root));
}

/// The largest file of that name below a folder.
fn size_of(folder: &Path, name: &str) -> u64 {
    let size = |path: &Path| match path.is_dir() {
        true => size_of(path, name),
        false if path.ends_with(name) => fs::metadata(path).unwrap().len(),
        false => 0,
    };
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| size(&entry.unwrap().path()))
        .max()
        .unwrap_or(0)
}

#[test]
fn a_list_of_entries_above_a_megabyte_is_that_of_c() {
    let wide = [
        ("model.layers", "160"),
        ("model.hidden", "8"),
        ("model.vocab_size", "256"),
    ];
    let (mut rig, folder) = (rig(&wide), Folder::new());
    for number in 0..16 {
        let text = format!("{number} 🪢 ").repeat(60_000 / 8);
        rig.engine
            .set_property(&format!("text-{number}"), &Property::Text(text))
            .unwrap();
        let integer = i64::MAX - number;
        rig.engine
            .set_property(&format!("n{number}"), &Property::Integer(integer))
            .unwrap();
    }
    rig.engine
        .set_property("real", &Property::Real(0.1))
        .unwrap();
    let other = rig.engine.set_property("other", &Property::Other(9));
    assert_eq!(other.unwrap_err().code(), Code::INVALID_ARGUMENT);
    let root = folder.path("root");
    rig.engine.save(&root, LIMIT).unwrap().wait(LIMIT).unwrap();
    assert!(
        size_of(&root, "MANIFEST") > 1 << 20,
        "{}",
        size_of(&root, "MANIFEST")
    );
    let by_c = read_by_c(&root);
    assert!(by_c[0].parse::<usize>().unwrap() > 5000, "{}", by_c[0]);
    assert_eq!(by_c, read_by_rust(&root));
    let checkpoint = Checkpoint::open(&rig.context, &root).unwrap();
    let last = checkpoint.entry(checkpoint.entry_count() - 1).unwrap();
    assert!(matches!(last, Entry::Property(name, Property::Text(text))
        if name.starts_with("text-") && text.ends_with("🪢 ")));
}

#[test]
fn a_checkpoint_is_verified_converted_and_exported() {
    let (mut rig, folder) = (rig(&[]), Folder::new());
    losses(&mut rig, 1);
    let root = folder.path("root");
    rig.engine.save(&root, LIMIT).unwrap().wait(LIMIT).unwrap();
    let mut checkpoint = Checkpoint::open(&rig.context, &root).unwrap();
    assert!(checkpoint.report().unwrap().contains("\"step\":1"));
    checkpoint.verify(true).unwrap().wait(LIMIT).unwrap();

    let mut layout = Config::new(&rig.context).unwrap();
    layout.load(&rig.config.to_json().unwrap()).unwrap();
    layout.set("layout.tensor", "2").unwrap();
    checkpoint
        .convert(&layout, folder.path("two"))
        .unwrap()
        .wait(LIMIT)
        .unwrap();
    let converted = Checkpoint::open(&rig.context, folder.path("two")).unwrap();
    // SAFETY: nobody else knows the folder.
    unsafe { checkpoint.trust_storage(true).unwrap() };
    for entry in checkpoint.entries().unwrap() {
        if let Entry::Tensor(TensorInfo { name, kind, .. }) = entry {
            let (ours, theirs) = (checkpoint.map(&name, kind), converted.map(&name, kind));
            assert!(ours.unwrap() == theirs.unwrap(), "{name}");
        }
    }
    assert_eq!(
        checkpoint.map("none", Kind::PARAM).unwrap_err().code(),
        Code::INVALID_ARGUMENT
    );
    let exported = folder.path("exported");
    checkpoint
        .export_hugging_face(None, &exported)
        .unwrap()
        .wait(LIMIT)
        .unwrap();
    let mut config = Config::new(&rig.context).unwrap();
    config.load_hugging_face(&exported).unwrap();
    assert_eq!(config.get("model.hidden").unwrap(), "32");
}

#[test]
fn a_data_set_feeds_steps_and_evaluations() {
    let folder = Folder::new();
    let bytes: Vec<u8> = (0..8000)
        .flat_map(|place| [(place % 200) as u8, 0])
        .collect();
    fs::write(folder.path("d.bin"), bytes).unwrap();
    let path = folder.path("d.bin");
    let mut rig = rig(&[
        ("data.train", path.to_str().unwrap()),
        ("data.split", "[0.5, 0.5]"),
        ("evaluate.batches", "2"),
    ]);
    let train = Dataset::open(&rig.context, &rig.config, "train").unwrap();
    let evaluate = Dataset::open(&rig.context, &rig.config, "evaluate").unwrap();
    let info = train.describe().unwrap();
    assert!(
        info.tokens > 3000 && info.samples > 50 && info.sequence_length == 32,
        "{info:?}"
    );
    assert_eq!(train.read("tokens", 0, 2).unwrap().len(), 2 * 33);
    assert!(train.read("weather", 0, 2).is_err());
    assert!(rig
        .engine
        .attach_dataset("test", Some(&train), LIMIT)
        .is_err());
    rig.engine
        .attach_dataset("train", Some(&train), LIMIT)
        .unwrap();
    rig.engine
        .attach_dataset("evaluate", Some(&evaluate), LIMIT)
        .unwrap();
    drop((train, evaluate)); // the engine keeps them
    assert_eq!(
        rig.engine.step(None, LIMIT).unwrap().metrics().targets,
        4 * 32
    );
    assert_eq!(
        rig.engine.evaluate(None, LIMIT).unwrap().unwrap().targets,
        2 * 4 * 32
    );
    rig.engine.attach_dataset("train", None, LIMIT).unwrap();
    fill(&mut rig.batch);
    assert_eq!(losses(&mut rig, 1).len(), 1);
}

#[test]
fn keys_counters_and_reports_of_an_engine() {
    let mut rig = rig(&[]);
    rig.engine.set("generate.top_k", Some("1")).unwrap();
    let first = rig
        .engine
        .generate(&[1, 2, 3], 5, LIMIT)
        .unwrap()
        .unwrap()
        .to_vec();
    assert_eq!(
        rig.engine.generate(&[1, 2, 3], 5, LIMIT).unwrap().unwrap()[..],
        first
    );
    rig.engine.set("generate.top_k", None).unwrap();
    assert!(rig.engine.set("model.hidden", Some("64")).is_err());
    losses(&mut rig, 2);
    for kind in [
        "config",
        "ranks",
        "kernels",
        "memory",
        "schedule",
        "properties",
        "operations",
    ] {
        assert!(rig.engine.report(kind).unwrap().len() > 1, "{kind}");
    }
    let counters = rig.engine.report("counters").unwrap();
    let name = counters.split('"').nth(1).unwrap();
    assert!(rig.engine.counter(name).unwrap() >= 0.0, "{counters}");
    assert_eq!(
        rig.engine.counter("no such").unwrap_err().code(),
        Code::INVALID_ARGUMENT
    );
}
