//! Each failure reaches the one who caused it, whole.

use std::thread;

use plait::{Checkpoint, Code, Config, Context, DType, Disposition, Kind, LogLevel};

use crate::support::{rig, Folder, LIMIT};

#[test]
fn an_error_has_code_word_rank_and_disposition() {
    let context = Context::new().unwrap();
    let mut config = Config::new(&context).unwrap();
    let error = config.set("optimizer.lrr", "1").unwrap_err();
    assert_eq!(error.code(), Code::INVALID_ARGUMENT);
    assert_eq!(
        (error.word(), error.rank(), error.host_code()),
        ("argument", None, 0)
    );
    assert_eq!(error.disposition(), Disposition::UNCHANGED);
    assert!(error.message().starts_with("argument: ") && error.message().contains("optimizer.lr"));
    assert!(error.details().starts_with('{') && error.details().contains("optimizer.lrr"));
    assert!(!error.subsystem().is_empty());
    assert_eq!(
        error.to_string(),
        format!("INVALID_ARGUMENT: {}", error.message())
    );
    let shared: Box<dyn std::error::Error + Send + Sync> = Box::new(error);
    assert!(shared.to_string().contains("argument: "));
}

#[test]
fn a_number_that_is_not_finite_names_its_rank() {
    let mut rig = rig(&[]);
    let tensor = rig.engine.tensors().unwrap().remove(0);
    let values = vec![f32::NAN; tensor.elements as usize];
    rig.engine
        .write_tensor_f32(&tensor.name, Kind::PARAM, &values, LIMIT)
        .unwrap();
    let error = rig.engine.step(Some(&rig.batch), LIMIT).unwrap_err();
    assert_eq!(
        (error.code(), error.word()),
        (Code::OUT_OF_RANGE, "nonfinite_loss")
    );
    assert_eq!(
        (error.rank(), error.disposition()),
        (Some(0), Disposition::UNCHANGED)
    );
}

#[test]
fn eight_threads_read_their_own_of_10_000_failures() {
    let context = Context::new().unwrap();
    thread::scope(|scope| {
        for number in 0..8 {
            let context = &context;
            scope.spawn(move || {
                for turn in 0..10_000 {
                    let mine = 100 + number * 10_000 + turn;
                    if number % 2 == 0 {
                        let level = LogLevel::from_number(mine);
                        let error = context.set_log_level(level).unwrap_err();
                        assert_eq!(error.code(), Code::INVALID_ARGUMENT);
                        assert!(error.message().contains(&format!("got={mine}")), "{error}");
                    } else {
                        let path = format!("/no/such/{mine}");
                        let error = Checkpoint::list(context, &path).unwrap_err();
                        assert_eq!(error.code(), Code::NOT_FOUND);
                        assert!(error.details().contains(&path), "{error}");
                    }
                }
            });
        }
    });
}

#[test]
fn another_version_is_refused_in_words() {
    let error = Context::with_version(2000).err().unwrap();
    assert_eq!(
        (error.code(), error.word()),
        (Code::FAILED_PRECONDITION, "version_mismatch")
    );
    assert!(
        error.message().contains("0.2") && error.message().contains("0.1"),
        "{error}"
    );
    assert!(Context::with_version(1000).is_ok());
}

#[test]
fn unknown_numbers_have_a_form() {
    assert_eq!(format!("{:?}", Code::PEER_LOST), "PEER_LOST");
    assert_eq!(format!("{:?}", DType::from_number(99)), "DType(99)");
    assert_eq!(Code::from_number(99).to_string(), "UNKNOWN");
    assert_eq!(Kind::from_number(64), Kind::GRADIENT);
}

#[test]
fn a_batch_that_does_not_fit_is_refused_and_the_engine_goes_on() {
    let mut rig = rig(&[]);
    assert_eq!(
        rig.batch.set("tokens", &[1, 2, 3], 2).unwrap_err().word(),
        "argument"
    );
    rig.batch.set("tokens", &[7; 33], 1).unwrap();
    let error = rig.engine.step(Some(&rig.batch), LIMIT).unwrap_err();
    assert_eq!(
        (error.code(), error.disposition()),
        (Code::INVALID_ARGUMENT, Disposition::UNCHANGED)
    );
    rig.batch.set("tokens", &[256; 4 * 33], 4).unwrap();
    let error = rig.engine.step(Some(&rig.batch), LIMIT).unwrap_err();
    assert_eq!(error.word(), "token_range");
    assert!(
        error.details().contains("\"value\":256"),
        "{}",
        error.details()
    );
    assert!(rig.engine.step(None, LIMIT).is_err());
    rig.batch.set("tokens", &[255; 4 * 33], 4).unwrap();
    assert_eq!(
        rig.engine
            .step(Some(&rig.batch), LIMIT)
            .unwrap()
            .metrics()
            .step,
        1
    );
    rig.batch.remove("tokens").unwrap();
    assert!(rig.engine.step(Some(&rig.batch), LIMIT).is_err());
}

#[test]
fn a_checkpoint_that_is_not_there_is_not_found() {
    let mut rig = rig(&[]);
    let folder = Folder::new();
    let error = rig.engine.load(folder.path("none"), LIMIT).unwrap_err();
    assert_eq!(error.code(), Code::NOT_FOUND);
    assert!(error.details().contains("none"));
    assert!(Checkpoint::open(&rig.context, folder.path("none")).is_err());
}
