//! Asks pkg-config for the installed library: where it is, and whether these declarations fit it.

use std::env;
use std::process::{exit, Command};

/// Before 1.0 each minor version is an ABI of its own.
const VERSION: &str = "0.1.";

fn ask(option: &str) -> Result<String, String> {
    let program = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".to_string());
    let output = Command::new(&program)
        .args([option, "plait"])
        .output()
        .map_err(|error| format!("cannot run {program}: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_string());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
}

fn find() -> Result<(), String> {
    let version = ask("--modversion")?;
    if !version.starts_with(VERSION) {
        return Err(format!("{version} is installed, but {VERSION}x is needed"));
    }
    for word in ask("--libs")?.split_whitespace() {
        if let Some(directory) = word.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={directory}");
        } else if let Some(name) = word.strip_prefix("-l") {
            println!("cargo:rustc-link-lib={name}");
        }
    }
    // For the layout test, which compiles a C program.
    println!(
        "cargo:rustc-env=PLAIT_INCLUDE={}",
        ask("--variable=includedir")?
    );
    Ok(())
}

fn main() {
    for name in ["PKG_CONFIG", "PKG_CONFIG_PATH", "PKG_CONFIG_LIBDIR"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    println!("cargo:rerun-if-changed=build.rs");
    if let Err(message) = find() {
        eprintln!("pkg-config offers no fitting Plait (is PKG_CONFIG_PATH set?): {message}");
        exit(1);
    }
}
