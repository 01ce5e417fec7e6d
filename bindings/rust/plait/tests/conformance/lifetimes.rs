//! Any order of ends is legal. What safe code cannot even write is tried on the C functions.

use std::ptr;
use std::thread;
use std::time::Duration;

use plait::{Checkpoint, Code, Dataset, Engine, Tokenizer};
use plait_sys as sys;

use crate::support::{rig, Folder, LIMIT};

/// All orders of 0 … count − 1.
fn orders(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let shorter = orders(count - 1);
    let longer = |order: &Vec<usize>, at: usize| {
        let mut order = order.clone();
        order.insert(at, count - 1);
        order
    };
    shorter
        .iter()
        .flat_map(|order| (0..count).map(move |at| longer(order, at)))
        .collect()
}

#[test]
fn handles_go_in_every_order() {
    let orders = orders(5);
    assert_eq!(orders.len(), 120);
    for order in orders {
        let rig = rig(&[("model.layers", "1"), ("model.hidden", "16")]);
        let mut handles: Vec<Option<Box<dyn Send>>> = vec![
            Some(Box::new(rig.context)),
            Some(Box::new(rig.config)),
            Some(Box::new(rig.group)),
            Some(Box::new(rig.engine)),
            Some(Box::new(rig.batch)),
        ];
        order
            .into_iter()
            .for_each(|index| drop(handles[index].take()));
    }
}

#[test]
fn children_live_on_without_their_parents() {
    let folder = Folder::new();
    std::fs::write(folder.path("d.bin"), vec![1; 4000]).unwrap();
    let mut rig = rig(&[("data.train", folder.path("d.bin").to_str().unwrap())]);
    let dataset = Dataset::open(&rig.context, &rig.config, "train").unwrap();
    let tokenizer = Tokenizer::bytes(&rig.context).unwrap();
    let operation = rig.engine.save(folder.path("root"), LIMIT).unwrap();
    operation.wait(LIMIT).unwrap();
    let checkpoint = Checkpoint::open(&rig.context, folder.path("root")).unwrap();
    let tensors = rig.engine.tensors().unwrap();
    drop(rig);
    assert_eq!(dataset.describe().unwrap().sequence_length, 32);
    assert_eq!(tokenizer.encode("a").unwrap()[..], [97]);
    assert!(operation.result().unwrap().contains("root"));
    let bytes = checkpoint.map(&tensors[0].name, tensors[0].kind).unwrap();
    assert_eq!(bytes.len() as i64, 4 * tensors[0].elements);
}

#[test]
fn a_stopper_without_an_engine_does_nothing() {
    let rig = rig(&[]);
    let (stopper, aborter) = (rig.engine.stopper(), rig.group.aborter());
    rig.engine.close(LIMIT).unwrap();
    stopper.request_stop();
    stopper.abort();
    drop(rig.group);
    aborter.abort();
}

#[test]
fn a_group_has_one_engine_at_a_time() {
    let mut rig = rig(&[]);
    let error = Engine::new(&mut rig.group, &rig.config, LIMIT)
        .err()
        .unwrap();
    assert_eq!(
        (error.code(), error.word()),
        (Code::FAILED_PRECONDITION, "busy")
    );
    rig.engine.close(LIMIT).unwrap();
    drop(rig.batch);
    assert!(Engine::new(&mut rig.group, &rig.config, LIMIT).is_ok());
}

/// An engine and its batch by the C functions alone, which do not stop misuse at compile time.
struct Raw {
    engine: *mut sys::plait_engine,
    batch: *mut sys::plait_batch,
}

// SAFETY: nothing in the library is tied to a thread.
unsafe impl Send for Raw {}

impl Raw {
    fn new() -> Raw {
        const JSON: &str = r#"{"model": {"family": "gpt2", "layers": 2, "hidden": 64, "heads": 2,
            "vocab_size": 256, "sequence_length": 64}, "train": {"global_batch": 4}, "threads": 1}"#;
        let (mut context, mut config, mut group) =
            (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        let mut raw = Raw {
            engine: ptr::null_mut(),
            batch: ptr::null_mut(),
        };
        let none = ptr::null_mut();
        let mut tokens = ptr::null_mut();
        // SAFETY: as a program in C would do it; children keep their parents.
        unsafe {
            let bytes = JSON.len() as i64;
            let codes = [
                sys::plait_context_create(sys::PLAIT_API_VERSION, ptr::null(), &mut context, none),
                sys::plait_config_create(context, &mut config, none),
                sys::plait_config_load(config, JSON.as_ptr().cast(), bytes, none),
                sys::plait_group_create(context, config, 0, 1, 1, &mut group, none),
                sys::plait_engine_create(group, config, -1, &mut raw.engine, none),
                sys::plait_batch_create(raw.engine, 1, &mut raw.batch, none),
                sys::plait_batch_map(
                    raw.batch,
                    b"tokens\0".as_ptr().cast(),
                    4,
                    65,
                    &mut tokens,
                    none,
                ),
            ];
            assert_eq!(codes, [sys::PLAIT_OK; 7]);
            sys::plait_context_free(context);
            sys::plait_config_free(config);
            sys::plait_group_free(group);
        }
        raw
    }

    /// One step, with the code of the failure.
    fn step(&self) -> i32 {
        // SAFETY: the batch lives; the engine may be gone, which the library finds out as long as the
        // batch keeps its memory.
        unsafe {
            sys::plait_engine_step(
                self.engine,
                self.batch,
                -1,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: of a freed engine the batch keeps the memory, so that a second free is harmless.
        unsafe {
            sys::plait_engine_free(self.engine);
            sys::plait_batch_free(self.batch);
        }
    }
}

#[test]
fn a_free_during_a_step_ends_it() {
    let raw = Raw::new();
    let engine = raw.engine as usize;
    let stepping = thread::spawn(move || loop {
        let code = raw.step();
        if code != sys::PLAIT_OK {
            break (code, raw);
        }
    });
    thread::sleep(Duration::from_millis(50));
    // SAFETY: the library ends the call that runs, and keeps the memory until it has returned.
    unsafe { sys::plait_engine_free(engine as *mut sys::plait_engine) };
    let (code, _raw) = stepping.join().unwrap();
    // Within a step, or between two of them.
    assert!(
        [sys::PLAIT_ABORTED, sys::PLAIT_INVALID_ARGUMENT].contains(&code),
        "{code}"
    );
}

#[test]
fn use_after_close_and_free_is_an_error() {
    let raw = Raw::new();
    assert_eq!(raw.step(), sys::PLAIT_OK);
    // SAFETY: the batch keeps the memory of the engine.
    unsafe {
        assert_eq!(
            sys::plait_engine_close(raw.engine, 5000, ptr::null_mut()),
            sys::PLAIT_OK
        );
        assert_eq!(
            sys::plait_engine_state(raw.engine),
            sys::PLAIT_ENGINE_CLOSED
        );
        sys::plait_engine_close(raw.engine, 5000, ptr::null_mut());
        assert_ne!(raw.step(), sys::PLAIT_OK);
        sys::plait_engine_free(raw.engine);
        assert_eq!(raw.step(), sys::PLAIT_INVALID_ARGUMENT);
        assert_eq!(sys::plait_engine_state(raw.engine), 0);
        sys::plait_engine_free(raw.engine);
    }
}
