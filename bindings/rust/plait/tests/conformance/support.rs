//! Small engines, folders that go with the test, and programs of C to compare with.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use plait::{Batch, Config, Context, Engine, Group, Scope};

pub const LIMIT: Option<Duration> = Some(Duration::from_secs(60));
pub const ROWS: i64 = 4;
pub const COLUMNS: i64 = 33;

const MODEL: &str = r#"{"model": {"family": "gpt2", "layers": 2, "hidden": 32, "heads": 2,
    "vocab_size": 256, "sequence_length": 32}, "train": {"global_batch": 4},
    "optimizer": {"lr": 1e-2}, "seed": 7, "threads": 1}"#;

/// A configuration of the small model, with some keys changed.
pub fn config(context: &Context, changes: &[(&str, &str)]) -> Config {
    let mut config = Config::new(context).unwrap();
    config.load(MODEL).unwrap();
    for (key, value) in changes {
        config.set(key, value).unwrap();
    }
    config
}

/// An engine of one rank with its batch, and what they hang on.
pub struct Rig {
    pub context: Context,
    pub config: Config,
    pub group: Group,
    pub engine: Engine,
    pub batch: Batch,
}

pub fn rig(changes: &[(&str, &str)]) -> Rig {
    let context = Context::new().unwrap();
    let config = config(&context, changes);
    let mut group = Group::new(&context, &config, 0, 1, 1).unwrap();
    let engine = Engine::new(&mut group, &config, LIMIT).unwrap();
    let mut batch = Batch::new(&engine, Scope::GLOBAL).unwrap();
    fill(&mut batch);
    Rig {
        context,
        config,
        group,
        engine,
        batch,
    }
}

/// Rows with something to learn.
pub fn fill(batch: &mut Batch) {
    let tokens = batch.map("tokens", ROWS, COLUMNS).unwrap();
    for (place, token) in tokens.iter_mut().enumerate() {
        *token = (place as i32 * 5 + 3) % 256;
    }
}

/// An empty folder of its own, which goes with the value.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("test-{}-{number}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A Hugging Face directory whose configuration has `unknown` keys of no meaning: reading it writes
/// as many warnings to the log.
pub fn talkative_model(folder: &Folder, unknown: usize) -> PathBuf {
    let path = folder.path("talkative");
    let mut json = r#"{"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_layer": 1,
        "n_embd": 4, "n_head": 2, "vocab_size": 8, "n_positions": 6, "layer_norm_epsilon": 1e-05,
        "activation_function": "gelu_new", "tie_word_embeddings": true"#
        .to_string();
    for number in 0..unknown {
        json += &format!(", \"unknown_{number}\": 1");
    }
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("config.json"), json + "}").unwrap();
    path
}

/// FNV-1a over what it is fed.
pub struct Hash(u64);

impl Hash {
    pub fn new() -> Hash {
        Hash(0xcbf2_9ce4_8422_2325)
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    pub fn text(&self) -> String {
        format!("{:016x}", self.0)
    }
}

/// What the C program `reader.c` prints about a checkpoint, a word for each of its lines.
pub fn read_by_c(checkpoint: &Path) -> Vec<String> {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("reader_{number}"));
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/bindings/rust/reader.c");
    let flags = Command::new("pkg-config")
        .args(["--cflags", "--libs", "plait"])
        .output()
        .unwrap();
    let flags = String::from_utf8(flags.stdout).unwrap();
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_string());
    let mut compile = Command::new(compiler);
    compile
        .arg(source)
        .arg("-o")
        .arg(&program)
        .args(flags.split_whitespace());
    assert!(compile.status().unwrap().success());
    let output = Command::new(&program).arg(checkpoint).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    fs::remove_file(program).unwrap();
    String::from_utf8(output.stdout)
        .unwrap()
        .split_whitespace()
        .map(str::to_string)
        .collect()
}
