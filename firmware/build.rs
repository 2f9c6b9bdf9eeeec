//! Assembles `src/rom.S` into the image of the ROM. Needs gcc (or what `CC` names) for x86.

use std::env;
use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

#[allow(dead_code, unreachable_pub, reason = "a module of the crate, of which this needs a part")]
#[path = "src/map.rs"]
mod map;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=src/rom.S");
    println!("cargo::rerun-if-changed=src/map.rs");
    println!("cargo::rerun-if-env-changed=CC");
    let compiler = env::var("CC").unwrap_or_else(|_| "gcc".into());
    let image = PathBuf::from(env::var("OUT_DIR")?).join("rom.bin");
    // The code is written for its copy in RAM.
    let origin = format!("-Wl,-Ttext={:#x}", map::SHADOW);
    let status = Command::new(&compiler)
        .args(["-nostdlib", "-static", "-no-pie", "-Wl,--build-id=none", "-Wl,--oformat=binary"])
        .arg(origin)
        .arg("-Wl,--entry=rom")
        .args(map::SYMBOLS.map(|(name, value)| format!("-D{name}={value:#x}")))
        .arg("src/rom.S")
        .arg("-o")
        .arg(&image)
        .status()
        .map_err(|e| format!("cannot run {compiler}: {e}"))?;
    if !status.success() {
        return Err(format!("{compiler} cannot assemble src/rom.S").into());
    }
    let size = fs::metadata(&image)?.len();
    if size != map::ROM_SIZE {
        return Err(format!("the ROM has {size} bytes, not {}", map::ROM_SIZE).into());
    }
    Ok(())
}
