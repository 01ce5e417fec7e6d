//! Numbers, texts and bytes arrive as they were sent.

use std::fs;

use plait::experimental::echo;
use plait::{Code, Config, Context, Plan, Property, Tokenizer};

use crate::support::{config, rig, Folder, LIMIT};

const WIDE: [i64; 8] = [
    1 << 31,
    (1 << 32) + 5,
    1 << 40,
    (1 << 53) + 1,
    i64::MAX,
    -(1 << 31) - 1,
    -1,
    i64::MIN,
];

#[test]
fn wide_integers_come_back() {
    for integer in WIDE {
        assert_eq!(echo(integer, 0.0, "", &[]).unwrap().0, integer);
    }
    let context = Context::new().unwrap();
    let mut config = Config::new(&context).unwrap();
    for seed in WIDE.into_iter().filter(|seed| *seed >= 0) {
        config.set("seed", &seed.to_string()).unwrap();
        assert_eq!(config.get("seed").unwrap(), seed.to_string());
    }
}

#[test]
fn reals_come_back_to_the_last_bit() {
    for real in [
        0.1,
        -0.0,
        f64::MAX,
        f64::MIN_POSITIVE,
        5e-324,
        f64::NEG_INFINITY,
    ] {
        assert_eq!(echo(0, real, "", &[]).unwrap().1.to_bits(), real.to_bits());
    }
}

#[test]
fn an_emoji_in_a_value_and_in_a_path() {
    let text = "knot 🪢, 中文, naïve";
    assert_eq!(echo(0, 0.0, text, &[]).unwrap().2, text);
    let mut rig = rig(&[]);
    rig.config.set("data.train", "/tmp/🪢.bin").unwrap();
    assert!(rig.config.get("data.train").unwrap().contains('🪢'));
    let value = Property::Text(text.to_string());
    rig.engine.set_property("note", &value).unwrap();

    let folder = Folder::new();
    let root = folder.path("🪢 中文");
    rig.engine.save(&root, LIMIT).unwrap().wait(LIMIT).unwrap();
    assert!(fs::read_dir(&root).unwrap().count() > 0);
    let report = rig.engine.load(&root, LIMIT).unwrap().unwrap();
    assert!(report.contains("🪢 中文"), "{report}");
}

#[test]
fn bytes_of_every_value_come_back() {
    let data: Vec<u8> = (0..=255).collect();
    assert_eq!(*echo(0, 0.0, "", &data).unwrap().3, *data);
    assert_eq!(*echo(0, 0.0, "", &[]).unwrap().3, []);
}

#[test]
fn text_with_a_nul_is_refused() {
    let error = echo(0, 0.0, "a\0b", &[]).unwrap_err();
    assert_eq!(
        (error.code(), error.word()),
        (Code::INVALID_ARGUMENT, "argument")
    );
    assert!(error.message().contains("parameter=text"));
}

#[test]
fn keys_are_described() {
    let context = Context::new().unwrap();
    let config = Config::new(&context).unwrap();
    let keys = config.keys().unwrap();
    assert!(keys.len() > 100);
    let find = |name: &str| keys.iter().find(|key| key.key == name).unwrap();
    let rate = find("optimizer.lr");
    assert_eq!((rate.kind.as_str(), rate.is_mutable), ("real", false));
    assert_eq!(rate.default_value.parse::<f64>().unwrap(), 3e-4);
    assert!(find("generate.top_k").is_mutable && find("run.steps").is_for_hosts);
    assert!(find("threads").is_local && find("model.family").choices.contains("llama"));
}

#[test]
fn a_configuration_is_read_written_and_reset() {
    let context = Context::new().unwrap();
    let mut config = config(&context, &[("optimizer.lr", "0.25")]);
    config.check().unwrap();
    assert!(config.to_json().unwrap().len() < config.to_complete_json().unwrap().len());
    let mut copy = Config::new(&context).unwrap();
    copy.load(&config.to_json().unwrap()).unwrap();
    assert_eq!(copy.get("optimizer.lr").unwrap(), "0.25");
    config.reset("optimizer.lr").unwrap();
    assert_ne!(config.get("optimizer.lr").unwrap(), "0.25");
    assert_eq!(
        config.load("{\"model\": {").unwrap_err().code(),
        Code::INVALID_ARGUMENT
    );
}

#[test]
fn text_becomes_ids_and_text_again() {
    let context = Context::new().unwrap();
    let tokenizer = Tokenizer::bytes(&context).unwrap();
    assert_eq!(tokenizer.vocab_size(), 256);
    let ids = tokenizer.encode("aé🪢").unwrap();
    assert_eq!(ids[..3], [97, 195, 169]);
    assert_eq!(*tokenizer.decode(&ids).unwrap(), *"aé🪢".as_bytes());
    assert_eq!(tokenizer.encode("").unwrap().len(), 0);
    assert_eq!(tokenizer.decode(&[256]).unwrap_err().word(), "token_range");

    let folder = Folder::new();
    fs::write(folder.path("in.txt"), "some text").unwrap();
    let (input, output) = (folder.path("in.txt"), folder.path("out.bin"));
    let operation = tokenizer.encode_file(None, input, &output).unwrap();
    operation.wait(LIMIT).unwrap();
    assert!(operation.result().unwrap().contains("\"tokens\":9"));
    assert_eq!(fs::read(output).unwrap().len(), 2 * 9);
    assert!(Tokenizer::open(&context, "gpt2", folder.path("")).is_err());
}

#[test]
fn the_library_tells_what_it_is() {
    assert!(plait::version() >= 1000);
    assert!(plait::build_info("features").unwrap().contains("cpu"));
    assert_eq!(plait::build_info("feature.cpu").unwrap(), "yes");
    assert_eq!(plait::build_info("weather"), None);
}

#[test]
fn a_plan_has_candidates_and_reports() {
    let context = Context::new().unwrap();
    let plan = Plan::new(&context, &config(&context, &[]), 1).unwrap();
    assert_eq!((plan.count(), plan.candidate(0).unwrap().data), (1, 1));
    assert!(plan.report(0, "memory").unwrap().contains("limit_bytes"));
    let error = plan.candidate(1).err().unwrap();
    assert_eq!(
        (error.code(), error.word()),
        (Code::INVALID_ARGUMENT, "argument")
    );
}
