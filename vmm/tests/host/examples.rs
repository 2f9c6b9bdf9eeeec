//! The bare-metal programs of `examples/`, built as their first lines say.

use super::*;

tests!(
    threads_count_their_regions_on_soft,
    threads_count_their_regions_on_kvm,
    a_guest_in_c_takes_its_interrupts,
    counting_from_outside,
);

/// Builds an example by the command in its comment, for one test.
fn build(name: &str, test: &str) -> PathBuf {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a project");
    let source = format!("examples/{name}.S");
    let text = std::fs::read_to_string(project.join(&source)).expect("an example");
    let command =
        text.lines().find_map(|line| line.trim_start_matches([' ', '*']).strip_prefix("gcc "));
    let command = command.expect("how it is built");
    let built = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("{name}.{test}.{}", std::process::id()));
    let words = command.split_whitespace();
    let words = words.map(|word| if word == name { built.as_os_str() } else { word.as_ref() });
    let gcc = std::env::var("CC").unwrap_or_else(|_| "gcc".into());
    let run = finish(Command::new(gcc).current_dir(project).args(words));
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    built
}

/// Thread n executes 2 + 200 (n + 1) + 2 instructions in its region, and three more at CPL 3 besides.
fn expect_regions(engine: &str) {
    let example = build("spflt", engine);
    let mut command = Command::new(VPMU);
    command.args([
        "run", "--cpu", "knc", "--smp", "4", "--engine", engine, "--stats", "none", "--kernel",
    ]);
    let run = finish(command.arg(&example));
    let regions = [204, 404, 604, 804];
    let core: u64 = regions.iter().map(|region| region + 3).sum();
    let line = |(n, region)| format!("thread {n}: region {region}, core {core}\n");
    let expected: String = regions.iter().enumerate().map(line).collect();
    assert_eq!(String::from_utf8_lossy(&run.stdout).replace('\r', ""), expected);
    // 0 at the debug-exit port.
    assert_eq!(said(&run), (String::new(), Some(1)));
    std::fs::remove_file(example).expect("what was built");
}

fn threads_count_their_regions_on_soft() -> Verdict {
    expect_regions("soft");
    Ok(())
}

fn threads_count_their_regions_on_kvm() -> Verdict {
    kvm()?;
    expect_regions("kvm");
    Ok(())
}

/// 100,000 instructions, and an interrupt every 10,000.
fn a_guest_in_c_takes_its_interrupts() -> Verdict {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/bare");
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bare.{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    for file in ["Makefile", "pmi.c", "start.S"] {
        std::fs::copy(source.join(file), folder.join(file)).expect("an example");
    }
    let mut make = Command::new("make");
    make.arg("-C").arg(&folder).stdin(Stdio::null());
    let built = match make.output() {
        Err(error) => return Err(CannotRun::without("make", &error.to_string())),
        Ok(built) => built,
    };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let run = |cpu: &str, skid: &str| {
        let mut command = Command::new(VPMU);
        command.args(["run", "--cpu", cpu, "--skid", skid, "--stats", "none", "--kernel"]);
        finish(command.arg(folder.join("pmi")))
    };
    let first_line = |run: &Output| {
        let text = String::from_utf8_lossy(&run.stdout).replace('\r', "");
        text.lines().next().unwrap_or_default().to_owned()
    };
    let exact = run("k8", "0");
    assert_eq!(first_line(&exact), "interrupts: 10, each after 10000 instructions");
    // 0 at the debug-exit port.
    assert_eq!(said(&exact), (String::new(), Some(1)));
    // Each handler begins 200 instructions late, and the tenth interrupt would be behind the loop.
    let late = run("k8", "200");
    assert_eq!(first_line(&late), "interrupts: 9, each after 10000 instructions");
    assert_eq!(said(&late), (String::new(), Some(3)));
    // The registers are those of AMD's processors alone.
    let refused = run("p6", "0");
    let text = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(126), "{text}");
    assert!(text.contains("C0010004h is PerfCtr0 of k7 and k8; this is p6"), "{text}");
    std::fs::remove_dir_all(folder).expect("what was built");
    Ok(())
}

/// CLI and HLT are two instructions, and as many cycles; what is no event is said in one line.
fn counting_from_outside() -> Verdict {
    let flat = format!("{}@0x7c00", payload("stat", HALT).display());
    let stat = |options: &[&str]| {
        let mut command = Command::new(VPMU);
        command.args(["stat", "--cpu", "p6", "--mem", "4M", "--flat", &flat]).args(options);
        finish(&mut command)
    };
    let expect = |options: &[&str], rows: &[&str]| {
        let run = stat(options);
        assert_eq!(said(&run), (HALTED.0.to_owned(), Some(HALTED.1)));
        let text = String::from_utf8_lossy(&run.stdout).into_owned();
        let all = rows.iter().all(|row| text.lines().any(|line| line.ends_with(row)));
        assert!(all, "{rows:?}: {text}");
    };
    expect(&["-e", "INST_RETIRED,cycles"], &[" 2  INST_RETIRED", " 2  cycles"]);
    // What the metrics need is counted too, and then the pipeline has its say in the cycles.
    let rows = [" 2  INST_RETIRED", " CPI = CPU_CLK_UNHALTED / INST_RETIRED"];
    expect(&["-e", "cycles", "--metrics"], &rows);
    let run = stat(&["-e", "NOPE"]);
    let (text, status) = said(&run);
    assert_eq!(status, Some(2), "{text}");
    assert!(text.starts_with("vpmu: event NOPE: ") && text.lines().count() == 1, "{text}");
    Ok(())
}
