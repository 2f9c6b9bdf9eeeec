//! `--stats json` is what `docs/stats.schema.json` says, and carries every option of the run.

use serde_json::{Value, json};

use super::*;

tests!(
    statistics_keep_to_the_schema,
    every_option_of_a_run_is_there,
    what_is_not_in_the_schema_is_noticed
);

fn schema() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/stats.schema.json");
    let text = std::fs::read_to_string(path).expect("the schema");
    serde_json::from_str(&text).expect("JSON")
}

/// Whether a value is one of a JSON Schema that has only these words; else where it is not.
fn check(schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    const KNOWN: [&str; 12] = [
        "$schema",
        "title",
        "description",
        "type",
        "required",
        "properties",
        "additionalProperties",
        "items",
        "enum",
        "const",
        "minimum",
        "maximum",
    ];
    let schema = schema.as_object().expect("a schema is an object");
    let word = schema.keys().find(|word| !KNOWN.contains(&word.as_str()));
    assert_eq!(word, None, "{at}: a word that this test does not know");
    let is = |kind: &Value| match kind.as_str().expect("the name of a type") {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "null" => value.is_null(),
        kind => panic!("{at}: type {kind}"),
    };
    let wrong = |why: &str| Err(format!("{at}: {why}: {value}"));
    match schema.get("type") {
        Some(Value::Array(kinds)) if !kinds.iter().any(is) => return wrong("type"),
        Some(kind @ Value::String(_)) if !is(kind) => return wrong("type"),
        _ => {}
    }
    if schema.get("const").is_some_and(|only| only != value) {
        return wrong("not the constant");
    }
    if schema.get("enum").is_some_and(|all| !all.as_array().expect("a list").contains(value)) {
        return wrong("none of the values");
    }
    let number = |word| schema.get(word).map(|limit| limit.as_u64().expect("a limit"));
    let below = number("minimum").is_some_and(|least| value.as_u64().is_none_or(|n| n < least));
    if below || number("maximum").is_some_and(|most| value.as_u64().is_none_or(|n| n > most)) {
        return wrong("out of range");
    }
    for item in value.as_array().into_iter().flatten() {
        check(&schema["items"], item, &format!("{at}[]"))?;
    }
    let Some(object) = value.as_object() else { return Ok(()) };
    let required = schema["required"].as_array().expect("a list");
    let missing = required.iter().find(|name| !object.contains_key(name.as_str().expect("a name")));
    if let Some(name) = missing {
        return wrong(&format!("without {name}"));
    }
    for (name, value) in object {
        match schema["properties"].get(name) {
            Some(schema) => check(schema, value, &format!("{at}.{name}"))?,
            None if schema["additionalProperties"] == false => {
                return wrong(&format!("has {name}"));
            }
            None => {}
        }
    }
    Ok(())
}

/// Runs `vpmu` with these words and `--stats json`, and gives what it writes.
fn statistics(name: &str, words: &[&str]) -> Value {
    let file = format!("statistics-{name}.{}", std::process::id());
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
    let mut command = Command::new(VPMU);
    finish(command.args(words).args(["--stats", "json", "--stats-file"]).arg(&file));
    let text = std::fs::read_to_string(&file).expect("statistics");
    std::fs::remove_file(file).expect("the file");
    serde_json::from_str(&text).expect("JSON")
}

/// A processor that halts, counters that interrupt, pins that toggle, many processors, and what was counted
/// from outside as well.
fn statistics_keep_to_the_schema() -> Verdict {
    let flat = format!("{}@0x7c00", payload("schema", HALT).display());
    let schema = schema();
    for (name, words) in [
        ("halted", &["run", "--mem", "4M", "--flat", &flat][..]),
        ("demo", &["run", "--demo", "sampling", "--serial", "/dev/null"]),
        ("pins", &["run", "--cpu", "p55c", "--demo", "sampling", "--serial", "/dev/null"]),
        ("threads", &["run", "--cpu", "knc", "--smp", "8", "--mem", "4M", "--flat", &flat]),
        ("outside", &["stat", "--cpu", "p6", "-e", "cycles", "--mem", "4M", "--flat", &flat]),
    ] {
        let statistics = statistics(name, words);
        check(&schema, &statistics, name).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(statistics["schema_version"], 1);
        assert_eq!(statistics["vpmu_version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(statistics["command"], words[0]);
    }
    Ok(())
}

/// The options of `vpmu run --help`, with what was given or is by default.
fn every_option_of_a_run_is_there() -> Verdict {
    let flat = format!("{}@0x7c00", payload("options", HALT).display());
    let words = ["run", "--cpu", "K8", "--mem", "4M", "--flat", &flat, "--skid", "7", "-q"];
    let options = statistics("options", &words)["options"].clone();
    for (name, value) in [
        ("cpu", json!("K8")),
        ("isa", json!("strict")),
        ("mem", json!("4M")),
        ("flat", json!(flat)),
        ("skid", json!("7")),
        ("quiet", json!(true)),
        ("no-cache", json!(false)),
        ("timeout", Value::Null),
        ("symbols", json!([])),
        ("module", json!([])),
        ("stats", json!("json")),
    ] {
        assert_eq!(options[name], value, "{name}");
    }
    let help = finish(Command::new(VPMU).args(["run", "--help"]));
    let help = String::from_utf8(help.stdout).expect("UTF-8");
    let is_name = |c: char| c.is_ascii_lowercase() || c == '-';
    let mut named = 0;
    // "-q, --quiet" and "--cpu <CPU>", but not a value, as in "- kvm: The host's KVM".
    let is_option = |line: &&str| line.trim_start().starts_with('-') && !line.contains("- ");
    for line in help.lines().filter(is_option) {
        let (_, name) = line.split_once("--").expect("a long name");
        let name = name.split(|c| !is_name(c)).next().unwrap_or_default();
        let there = options.as_object().expect("options").contains_key(name);
        assert_eq!(there, name != "help", "{name}");
        named += 1;
    }
    assert_eq!(named, options.as_object().expect("options").len() + 1, "{help}");
    Ok(())
}

/// What the test above could not do without: a key too few or too many, or a value of another type.
fn what_is_not_in_the_schema_is_noticed() -> Verdict {
    let flat = format!("{}@0x7c00", payload("noticed", HALT).display());
    let schema = schema();
    let right = statistics("noticed", &["run", "--mem", "4M", "--flat", &flat]);
    assert_eq!(check(&schema, &right, "right"), Ok(()));
    let required = schema["required"].as_array().expect("a list");
    for name in required.iter().map(|name| name.as_str().expect("a name")) {
        let mut wrong = right.clone();
        wrong.as_object_mut().expect("an object").remove(name);
        assert!(check(&schema, &wrong, "without").is_err(), "{name}");
        let mut wrong = right.clone();
        wrong[name] = json!(-1);
        assert!(check(&schema, &wrong, "another").is_err(), "{name}");
    }
    for path in ["", "/options", "/translated", "/vcpus/0", "/vcpus/0/counters/0"] {
        let mut wrong = right.clone();
        let inside = wrong.pointer_mut(path).expect("an object");
        inside["surplus"] = json!(1);
        assert!(check(&schema, &wrong, "surplus").is_err(), "{path}");
    }
    Ok(())
}
