//! Two builds of vpmu in turns, on the same images: what a change costs.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use vpmu::program::Image;

use crate::guest::{self, Counted, Load, Workload};
use crate::{Result, clock, linux};

/// Each image is run so many times by each build. The median of an odd number is one of them.
const PAIRS: usize = 15;
/// Boots take seconds.
const BOOTS: usize = 3;

/// What is run, with the arguments of vpmu.
struct Case {
    name: String,
    arguments: Vec<String>,
    pairs: usize,
    /// Status that the guest leaves.
    status: i32,
}

/// Compares the build `old` with the build `new`: a table of the ratios of their speeds.
pub(crate) fn compare(old: &Path, new: &Path) -> Result<()> {
    let folder = std::env::temp_dir().join(format!("vpmu-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let result = cases(&folder).and_then(|cases| table(old, new, &cases));
    std::fs::remove_dir_all(&folder)?;
    result
}

fn cases(folder: &Path) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    let mut workload = |load: Load, counted| -> Result<()> {
        let suffix = match counted {
            Counted::Nothing => "",
            Counted::Exact => ", counting",
            Counted::Modelled => ", models on",
        };
        let name = format!("{}{suffix}", load.name());
        // About a third of a second. The guest writes 0 to the debug-exit port, which is status 1.
        let Image { bytes, load_address, .. } =
            guest::assemble(Workload { load, counted }, load.iterations() / 3)?;
        let file = folder.join(name.replace(' ', "-"));
        std::fs::write(&file, bytes)?;
        let flat = format!("--flat={}@{load_address:#x}", file.display());
        cases.push(Case {
            name,
            arguments: vec![flat, "--mem=16M".into()],
            pairs: PAIRS,
            status: 1,
        });
        Ok(())
    };
    for load in Load::ALL {
        for counted in [Counted::Nothing, Counted::Exact, Counted::Modelled] {
            workload(load, counted)?;
        }
    }
    for load in [Load::Rdpmc, Load::Rdmsr, Load::Wrmsr] {
        workload(load, Counted::Exact)?;
    }
    match linux::Files::find(linux::Flavour::Cloud, folder) {
        Ok(files) => cases.push(Case {
            name: "boot".into(),
            arguments: vec![
                format!("--kernel={}", files.kernel.display()),
                format!("--initrd={}", files.initrd.display()),
                format!("--append={}", linux::APPEND),
                "--mem=512M".into(),
            ],
            pairs: BOOTS,
            status: 0,
        }),
        Err(error) => eprintln!("benches: boot left out: {error}"),
    }
    Ok(cases)
}

fn table(old: &Path, new: &Path, cases: &[Case]) -> Result<()> {
    println!("| program | old, s | new, s | speed new/old, median of pairs | least | most |");
    println!("|---|---|---|---|---|---|");
    for Case { name, arguments, pairs, status } in cases {
        let run = |vpmu| run(vpmu, arguments, *status);
        let (mut olds, mut news, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        // The first of a build reads its file from the disk.
        run(old)?;
        run(new)?;
        for pair in 0..*pairs {
            // The second finds the host's caches and frequency as the first left them: the builds
            // alternate in who is first.
            let (a, b) = if pair % 2 == 0 {
                let a = run(old)?;
                (a, run(new)?)
            } else {
                let b = run(new)?;
                (run(old)?, b)
            };
            olds.push(a.as_secs_f64());
            news.push(b.as_secs_f64());
            ratios.push(a.as_secs_f64() / b.as_secs_f64());
        }
        for figures in [&mut olds, &mut news, &mut ratios] {
            figures.sort_by(f64::total_cmp);
        }
        let middle = pairs / 2;
        println!(
            "| {name} | {:.3} | {:.3} | {:.3} | {:.3} | {:.3} |",
            olds[middle],
            news[middle],
            ratios[middle],
            ratios[0],
            ratios[pairs - 1],
        );
    }
    Ok(())
}

/// Processor time of one run.
fn run(vpmu: &Path, arguments: &[String], expected: i32) -> Result<Duration> {
    let before = clock::children()?;
    let status = Command::new(vpmu)
        .args(["run", "--timeout=60"])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(|error| format!("{}: {error}", vpmu.display()))?;
    if status.code() != Some(expected) {
        return Err(format!("{} {}: {status}", vpmu.display(), arguments.join(" ")).into());
    }
    Ok(clock::children()?.saturating_sub(before))
}
