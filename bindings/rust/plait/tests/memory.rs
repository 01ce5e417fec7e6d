//! Memory stays flat. A program of its own, since it watches the whole process.

#[path = "conformance/support.rs"]
#[allow(dead_code)]
mod support;

use std::fs;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Mutex;

use plait::{Config, Context};

use support::{rig, talkative_model, Folder, LIMIT};

/// One test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Resident memory of the process.
fn resident_bytes() -> i64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<i64>().unwrap() * 4096
}

#[test]
fn a_thousand_engines_leave_no_memory_behind() {
    let _alone = ALONE.lock();
    let cycle = || {
        let mut rig = rig(&[("model.layers", "1"), ("model.hidden", "16")]);
        assert_eq!(
            rig.engine
                .step(Some(&rig.batch), LIMIT)
                .unwrap()
                .metrics()
                .step,
            1
        );
        rig.engine.close(LIMIT).unwrap();
    };
    (0..100).for_each(|_| cycle());
    let before = resident_bytes();
    (0..900).for_each(|_| cycle());
    let grown = resident_bytes() - before;
    assert!(grown < 8 << 20, "{grown} bytes");
}

#[test]
fn a_handler_of_a_million_records_panics_at_last_and_memory_is_flat() {
    let _alone = ALONE.lock();
    let (context, folder) = (Context::new().unwrap(), Folder::new());
    let model = talkative_model(&folder, 4000);
    let mut config = Config::new(&context).unwrap();
    let mut calls = 0;
    let mut round = |last: usize| {
        config.load_hugging_face(&model).unwrap();
        let handler = |_: &str| {
            calls += 1;
            assert!(calls < last, "the last record");
        };
        catch_unwind(AssertUnwindSafe(|| context.drain_log(usize::MAX, handler)))
    };
    (0..25).for_each(|_| assert_eq!(round(usize::MAX).unwrap().unwrap(), 4000));
    let before = resident_bytes();
    (25..249).for_each(|_| assert_eq!(round(usize::MAX).unwrap().unwrap(), 4000));
    assert!(round(1_000_000).is_err());
    let grown = resident_bytes() - before;
    assert_eq!(calls, 1_000_000);
    assert!(grown < 8 << 20, "{grown} bytes");
}
