//! How processes meet. Each thread here stands for a process; `tests/bindings/rust.sh` has real ones.

use std::collections::HashMap;
use std::net::TcpListener;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use plait::{Aborter, Batch, Code, Context, Disposition, Engine, Error, Group, KeyValue, Scope};
use plait::{Step, HOST_CODE_PANIC};

use crate::support::{config, fill, rig, LIMIT};

/// What the store does on purpose.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    PutPanics,
    GetPanics,
    Fails(i64),
}

type Values = HashMap<String, Vec<u8>>;

/// A store that all threads share.
#[derive(Clone)]
struct Store {
    values: Arc<(Mutex<Values>, Condvar)>,
    fault: Fault,
}

impl Store {
    fn new(fault: Fault) -> Store {
        Store {
            values: Arc::default(),
            fault,
        }
    }
}

impl KeyValue for Store {
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), i64> {
        assert!(self.fault != Fault::PutPanics, "put was told to panic");
        self.values
            .0
            .lock()
            .unwrap()
            .insert(key.to_string(), value.to_vec());
        self.values.1.notify_all();
        Ok(())
    }

    fn get(&mut self, key: &str, timeout: Duration) -> Result<Option<Vec<u8>>, i64> {
        assert!(self.fault != Fault::GetPanics, "get was told to panic");
        if let Fault::Fails(code) = self.fault {
            return Err(code);
        }
        let values = self.values.0.lock().unwrap();
        let is_missing = |values: &mut Values| !values.contains_key(key);
        let (values, _) = self
            .values
            .1
            .wait_timeout_while(values, timeout, is_missing)
            .unwrap();
        Ok(values.get(key).cloned())
    }
}

/// Rank `rank` of two, not yet joined.
fn group(rank: i32) -> (Context, plait::Config, Group) {
    let context = Context::new().unwrap();
    let config = config(
        &context,
        &[("layout.data", "2"), ("network.token", "secret")],
    );
    let group = Group::new(&context, &config, rank, 1, 2).unwrap();
    (context, config, group)
}

/// The losses of some steps of one rank of two, and then what `last` makes of the engine.
fn train<T>(
    rank: i32,
    steps: i32,
    join: impl FnOnce(&mut Group),
    last: impl FnOnce(Engine, &Batch) -> T,
) -> (Vec<f64>, T) {
    let (_context, config, mut group) = group(rank);
    join(&mut group);
    let mut engine = Engine::new(&mut group, &config, LIMIT).unwrap();
    let mut batch = Batch::new(&engine, Scope::GLOBAL).unwrap();
    fill(&mut batch);
    let step = |_| engine.step(Some(&batch), LIMIT).unwrap().metrics().loss;
    let losses = (0..steps).map(step).collect();
    (losses, last(engine, &batch))
}

/// The losses of the same steps with both ranks in one process.
fn together() -> Vec<f64> {
    let context = Context::new().unwrap();
    let config = config(&context, &[("layout.data", "2")]);
    let mut group = Group::new(&context, &config, 0, 2, 2).unwrap();
    group.commit(LIMIT).unwrap(); // does nothing
    let mut engine = Engine::new(&mut group, &config, LIMIT).unwrap();
    let mut batch = Batch::new(&engine, Scope::GLOBAL).unwrap();
    fill(&mut batch);
    (0..4)
        .map(|_| engine.step(Some(&batch), LIMIT).unwrap().metrics().loss)
        .collect()
}

fn close(engine: Engine, _: &Batch) {
    engine.close(LIMIT).unwrap();
}

/// Both ranks of two, one in a thread of its own.
fn pair<T: Send>(body: impl Fn(i32) -> T + Sync) -> [T; 2] {
    thread::scope(|scope| {
        let second = scope.spawn(|| body(1));
        [body(0), second.join().unwrap()]
    })
}

#[test]
fn processes_meet_by_a_key_value_store() {
    let store = Store::new(Fault::None);
    let join = |group: &mut Group| group.join_kv(&mut store.clone(), LIMIT).unwrap();
    let losses = pair(|rank| train(rank, 4, join, close).0);
    assert_eq!(losses, [together(), together()]);
}

#[test]
fn processes_meet_by_cards() {
    let cards = Mutex::new(HashMap::new());
    let exchange = |rank: i32, group: &mut Group| {
        let card = group.card().unwrap();
        assert!(card.len() <= 4096);
        cards.lock().unwrap().insert(rank, card.to_vec());
        while cards.lock().unwrap().len() < 2 {
            thread::yield_now();
        }
        cards
            .lock()
            .unwrap()
            .values()
            .for_each(|card| group.add_card(card).unwrap());
        group.commit(LIMIT).unwrap();
    };
    let losses = pair(|rank| train(rank, 4, |group| exchange(rank, group), close).0);
    assert_eq!(losses, [together(), together()]);
}

#[test]
fn processes_meet_by_tcp() {
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    let join = |group: &mut Group| group.join_tcp(&free, LIMIT).unwrap();
    let losses = pair(|rank| train(rank, 4, join, close).0);
    assert_eq!(losses, [together(), together()]);
    let (_context, _config, mut group) = group(0);
    assert_eq!(
        group.join_tcp("nowhere", LIMIT).unwrap_err().code(),
        Code::INVALID_ARGUMENT
    );
}

#[test]
fn a_lost_peer_is_named() {
    let store = Store::new(Fault::None);
    let join = |group: &mut Group| group.join_kv(&mut store.clone(), LIMIT).unwrap();
    let go_on = |mut engine: Engine, batch: &Batch| -> Option<Error> {
        loop {
            if let Err(error) = engine.step(Some(batch), LIMIT) {
                return Some(error);
            }
        }
    };
    let leave = |engine: Engine, _: &Batch| -> Option<Error> {
        drop(engine); // and not closed
        None
    };
    let [first, second] = pair(|rank| match rank {
        0 => train(rank, 0, join, go_on).1,
        _ => train(rank, 4, join, leave).1,
    });
    let error = first.unwrap();
    assert_eq!(
        (error.code(), error.rank()),
        (Code::PEER_LOST, Some(1)),
        "{error}"
    );
    assert_eq!(error.disposition(), Disposition::ENGINE_LOST);
    assert!(second.is_none());
}

#[test]
fn a_panic_in_a_store_is_an_error_and_all_goes_on() {
    let mut bystander = rig(&[]);
    let (_context, _config, mut waiting) = group(0);
    for fault in [Fault::PutPanics, Fault::GetPanics] {
        let error = waiting.join_kv(&mut Store::new(fault), LIMIT).unwrap_err();
        assert_eq!((error.code(), error.word()), (Code::HOST_ERROR, "callback"));
        assert_eq!(error.host_code(), HOST_CODE_PANIC);
    }
    // Other engines of the process did not notice, and this group can still meet its peer.
    let step = bystander
        .engine
        .step(Some(&bystander.batch), LIMIT)
        .unwrap();
    assert!(matches!(step, Step::Done(metrics) if metrics.step == 1));
    let store = Store::new(Fault::None);
    thread::scope(|scope| {
        let peer = store.clone();
        scope.spawn(move || {
            let join = |group: &mut Group| group.join_kv(&mut peer.clone(), LIMIT).unwrap();
            train(1, 4, join, close)
        });
        waiting.join_kv(&mut store.clone(), LIMIT).unwrap();
        let mut engine = Engine::new(&mut waiting, &_config, LIMIT).unwrap();
        let mut batch = Batch::new(&engine, Scope::GLOBAL).unwrap();
        fill(&mut batch);
        for step in 1..5 {
            assert_eq!(
                engine.step(Some(&batch), LIMIT).unwrap().metrics().step,
                step
            );
        }
        engine.close(LIMIT).unwrap();
    });
}

#[test]
fn the_number_of_a_store_arrives() {
    let (_context, _config, mut group) = group(0);
    for (code, arrives) in [(42, 42), (0, -1), (i64::MAX, i64::MAX)] {
        let error = group
            .join_kv(&mut Store::new(Fault::Fails(code)), LIMIT)
            .unwrap_err();
        assert_eq!(
            (error.code(), error.host_code()),
            (Code::HOST_ERROR, arrives)
        );
    }
}

#[test]
fn ranks_that_do_not_come_are_named() {
    let (_context, _config, mut group) = group(0);
    let soon = Some(Duration::from_millis(50));
    let error = group.commit(soon).unwrap_err();
    assert_eq!(
        (error.code(), error.word()),
        (Code::DEADLINE_EXCEEDED, "missing_ranks")
    );
    assert_eq!(error.disposition(), Disposition::RETRY);
    assert!(error.message().contains("[1]"), "{error}");
    let measured = group.measure("links", soon).unwrap_err();
    assert_eq!(
        (measured.code(), measured.word()),
        (Code::DEADLINE_EXCEEDED, "missing_ranks")
    );
    let (context, config) = (Context::new().unwrap(), config(&_context, &[]));
    let error = Group::new(&context, &config, 3, 1, 2).err().unwrap();
    assert_eq!(
        (error.code(), error.word()),
        (Code::INVALID_ARGUMENT, "topology")
    );
}

#[test]
fn a_join_that_waits_is_aborted() {
    let (_context, _config, mut group) = group(0);
    let aborter = group.aborter();
    let other = thread::spawn(move || {
        thread::sleep(Duration::from_millis(50));
        Aborter::abort(&aborter);
    });
    let error = group
        .join_kv(&mut Store::new(Fault::None), LIMIT)
        .unwrap_err();
    assert_eq!(error.code(), Code::ABORTED);
    other.join().unwrap();
}
