//! Stops and aborts from other threads and from a signal handler; engines that move.

use std::os::raw::c_int;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use plait::{Code, Disposition, Engine, EngineState, Step, Stopper};

use crate::support::{rig, LIMIT};

#[test]
fn a_second_thread_stops_and_a_third_aborts() {
    let mut rig = rig(&[]);
    let (stop, abort) = (rig.engine.stopper(), rig.engine.stopper());
    let (say_step, hear_step) = mpsc::channel();
    let (say_stopped, hear_stopped) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            hear_step.recv().unwrap();
            stop.request_stop();
        });
        scope.spawn(move || {
            hear_stopped.recv().unwrap();
            thread::sleep(Duration::from_millis(20));
            abort.abort();
        });
        let mut steps = 0;
        let stopped = loop {
            let step = rig.engine.step(Some(&rig.batch), LIMIT).unwrap();
            steps += 1;
            let _ = say_step.send(());
            assert_eq!(step.metrics().step, steps);
            assert!(step.metrics().has_step() && step.metrics().loss > 0.0);
            if let Step::Stopped(metrics) = step {
                break metrics;
            }
        };
        // The request is used up: training can go on, here until the abort.
        assert_eq!(rig.engine.state(), EngineState::READY);
        say_stopped.send(()).unwrap();
        let error = loop {
            match rig.engine.step(Some(&rig.batch), LIMIT) {
                Ok(step) => assert!(!step.is_stopped() && step.metrics().step > stopped.step),
                Err(error) => break error,
            }
        };
        assert_eq!((error.code(), error.word()), (Code::ABORTED, "aborted"));
        assert_eq!(error.disposition(), Disposition::ENGINE_LOST);
    });
    assert_eq!(rig.engine.state(), EngineState::LOST);
    assert!(rig.engine.report("counters").is_ok());
    // The process lives on: the group takes a new engine when the old one is gone.
    drop((rig.batch, rig.engine));
    assert!(Engine::new(&mut rig.group, &rig.config, LIMIT).is_ok());
}

#[test]
fn an_abort_ends_a_call_at_once() {
    let mut rig = rig(&[("model.layers", "8"), ("model.hidden", "64")]);
    let stopper = rig.engine.stopper();
    let aborter = thread::spawn(move || {
        thread::sleep(Duration::from_millis(50));
        stopper.abort();
        Instant::now()
    });
    let error = rig.engine.generate(&[1], 1 << 30, LIMIT).unwrap_err();
    let took = aborter.join().unwrap().elapsed();
    assert_eq!(error.code(), Code::ABORTED);
    // A second is promised on a free machine. Without the abort the call takes all of LIMIT.
    assert!(took < Duration::from_secs(20), "{took:?}");
}

#[test]
fn a_request_to_stop_ends_what_has_no_effect() {
    let mut rig = rig(&[]);
    let stopper = rig.engine.stopper();
    let mut losses = vec![-1.0; 4 * 32];
    stopper.request_stop();
    assert_eq!(rig.engine.evaluate(Some(&rig.batch), LIMIT).unwrap(), None);
    assert!(rig
        .engine
        .evaluate(Some(&rig.batch), LIMIT)
        .unwrap()
        .is_some());
    stopper.request_stop();
    assert!(!rig.engine.score(&rig.batch, &mut losses, LIMIT).unwrap());
    assert!(losses.iter().all(|loss| *loss == -1.0));
    stopper.request_stop();
    assert!(rig.engine.generate(&[1, 2], 4, LIMIT).unwrap().is_none());
    assert_eq!(
        rig.engine
            .generate(&[1, 2], 4, LIMIT)
            .unwrap()
            .unwrap()
            .len(),
        4
    );
}

static FOR_SIGNALS: AtomicPtr<Stopper> = AtomicPtr::new(ptr::null_mut());

extern "C" fn on_signal(_: c_int) {
    // SAFETY: null, or a stopper that lives as long as the process.
    if let Some(stopper) = unsafe { FOR_SIGNALS.load(Ordering::SeqCst).as_ref() } {
        stopper.request_stop();
    }
}

extern "C" {
    fn signal(number: c_int, handler: extern "C" fn(c_int)) -> usize;
    fn raise(number: c_int) -> c_int;
}

#[test]
fn a_signal_handler_stops() {
    const SIGUSR1: c_int = 10;
    let mut rig = rig(&[]);
    FOR_SIGNALS.store(
        Box::into_raw(Box::new(rig.engine.stopper())),
        Ordering::SeqCst,
    );
    // SAFETY: the handler does nothing but atomic operations.
    unsafe {
        signal(SIGUSR1, on_signal);
        raise(SIGUSR1);
    }
    assert!(rig
        .engine
        .step(Some(&rig.batch), LIMIT)
        .unwrap()
        .is_stopped());
    drop(rig);
    // SAFETY: as above; the engine is gone by now.
    assert_eq!(unsafe { raise(SIGUSR1) }, 0);
}

#[test]
fn stoppers_outlive_engines_and_race_with_their_end() {
    let is_over = AtomicBool::new(false);
    let (send, receive) = mpsc::channel::<Stopper>();
    thread::scope(|scope| {
        let is_over = &is_over;
        scope.spawn(move || {
            let mut known: Vec<Stopper> = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                known.extend(receive.try_iter());
                known.iter().for_each(Stopper::request_stop);
                known.iter().for_each(Stopper::abort);
            }
        });
        for _ in 0..50 {
            let mut rig = rig(&[("model.layers", "1")]);
            send.send(rig.engine.stopper()).unwrap();
            let _ = rig.engine.step(Some(&rig.batch), LIMIT);
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn an_engine_moves_to_another_thread() {
    let mut rig = rig(&[]);
    let step = thread::spawn(move || {
        let step = rig.engine.step(Some(&rig.batch), LIMIT).unwrap();
        (rig, step)
    });
    let (mut rig, first) = step.join().unwrap();
    let second = rig.engine.step(Some(&rig.batch), LIMIT).unwrap();
    assert!(second.metrics().loss < first.metrics().loss);
    rig.engine.close(LIMIT).unwrap();
}
