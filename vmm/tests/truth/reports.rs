//! What `vpmu truth` prints. The numbers are sums of the sample's, done by hand.

use vpmu::truth::Truth;

use crate::harness::{Verdict, tests};
use crate::{path, printed, sample, sample_file, vpmu_truth};

tests![
    by_function,
    by_another_event_and_with_a_limit,
    by_everything_else,
    filters,
    the_instructions_of_a_function,
    json,
    folded,
    callgrind,
    calls_without_a_context_are_mentioned,
    what_is_not_there_is_one_line,
];

fn by_function() -> Verdict {
    let text = printed(&sample_file("by-function"), "");
    let expected = "\
instructions       %  loads  function            module
          53   28.80     25  do_syscall          kernel
          30   16.30     10  main                cat
          30   16.30      3  fact                cat
          30   16.30      4  0x500000            [unknown] (sort)
          15    8.15      5  entry_SYSCALL_64    kernel
          12    6.52      6  irq_entry           kernel
          10    5.43      0  0x700000            [unknown] (sort)
           4    2.17      3  0xffffffff81000300  [unknown]
         184  100.00     56  (total)
";
    assert_eq!(text, expected);
    Ok(())
}

/// 25, 10 and 6 of 56; what is left is 56 - 41 and 184 - 95.
fn by_another_event_and_with_a_limit() -> Verdict {
    let text = printed(&sample_file("by-event"), "--event loads --limit 3");
    let expected = "\
instructions  loads       %  function    module
          53     25   44.64  do_syscall  kernel
          30     10   17.85  main        cat
          12      6   10.71  irq_entry   kernel
          89     15   26.78  (5 more)
         184     56  100.00  (total)
";
    assert_eq!(text, expected);
    Ok(())
}

fn by_everything_else() -> Verdict {
    let file = sample_file("by-all");
    let expected = "\
instructions       %  loads  process  cr3
         137   74.45     49  cat      0x2000
          47   25.54      7  sort     0x3000
         184  100.00     56  (total)
";
    assert_eq!(printed(&file, "--by process"), expected);
    let expected = "\
instructions       %  loads  module
          80   43.47     36  kernel
          60   32.60     13  cat
          40   21.73      4  [unknown] (sort)
           4    2.17      3  [unknown]
         184  100.00     56  (total)
";
    assert_eq!(printed(&file, "--by module"), expected);
    let expected = "\
instructions       %  loads  cpl
         100   54.34     17  3
          84   45.65     39  0
         184  100.00     56  (total)
";
    assert_eq!(printed(&file, "--by cpl"), expected);
    let expected = "\
instructions       %  loads  vcpu
         134   72.82     48  0
          50   27.17      8  1
         184  100.00     56  (total)
";
    assert_eq!(printed(&file, "--by vcpu"), expected);
    // The kernel's instruction is the same in both spaces.
    let expected = "\
instructions       %  loads  address             instruction     function    module
          53   28.80     25  0xffffffff81000100  mov eax, [rdi]  do_syscall  kernel
          30   16.30      4  0x500000            nop             0x500000    [unknown] (sort)
         101   54.89     27  (12 more)
         184  100.00     56  (total)
";
    assert_eq!(printed(&file, "--by instruction --limit 2"), expected);
    Ok(())
}

fn filters() -> Verdict {
    let file = sample_file("filters");
    let expected = "\
instructions       %  loads  function            module
           4   57.14      3  0xffffffff81000300  [unknown]
           3   42.85      0  do_syscall          kernel
           7  100.00      3  (total)
";
    assert_eq!(printed(&file, "--space sort --cpl 0"), expected);
    assert_eq!(printed(&file, "--space 0x3000 --cpl 0"), expected);
    let expected = "\
instructions       %  loads  process  cr3
           3  100.00      1  cat      0x2000
           3  100.00      1  (total)
";
    assert_eq!(printed(&file, "--space cat --vcpu 1 --by process"), expected);
    Ok(())
}

/// Behind 401042h are four bytes that were not executed. The one at 401007h was modified.
fn the_instructions_of_a_function() -> Verdict {
    let file = sample_file("listing");
    let expected = "\
fact  cat
instructions      %  loads  address   bytes           instruction
          11  36.66      3  0x401040  ff cf           dec edi
          11  36.66      0  0x401042  74 09           je 0x40104d <fact+0xd>
         ...
           6  20.00      0  0x401048  e8 f3 ff ff ff  call 0x401040 <fact>
           2   6.66      0  0x40104d  c3              ret
";
    assert_eq!(printed(&file, "--function fact"), expected);
    assert_eq!(printed(&file, "--function 0x401048"), expected);
    let expected = "\
main  cat
instructions      %  loads  address   bytes           instruction
           5  16.66      0  0x401000  e8 3b 00 00 00  call 0x401040 <fact>
           5  16.66      0  0x401005  0f 05           syscall
           8  26.66      0  0x401007  90              nop
          12  40.00     10  0x401007  eb f7           jmp 0x401000 <main>
";
    assert_eq!(printed(&file, "--function main"), expected);
    let text = printed(&file, "--function 0xffffffff81000300");
    assert!(text.ends_with("  0xffffffff81000310         (not executed)\n"), "{text}");
    Ok(())
}

fn json() -> Verdict {
    let file = sample_file("json");
    let read = |options| -> serde_json::Value {
        serde_json::from_str(&printed(&file, options)).expect("JSON")
    };
    let all = read("--json");
    assert_eq!(all["total"], serde_json::json!([184, 56]));
    assert_eq!(all["events"][1]["name"], "loads");
    assert_eq!(all["lines"].as_array().map(Vec::len), Some(8));
    let first = serde_json::json!({
        "function": "do_syscall", "module": "kernel", "counts": [53, 25]
    });
    assert_eq!(all["lines"][0], first);
    let fact = read("--json --function fact");
    let call = serde_json::json!({
        "address": "0x401048", "bits": 64, "bytes": "e8 f3 ff ff ff",
        "instruction": "call 0x401040 <fact>", "function": "fact", "module": "cat",
        "counts": [6, 0],
    });
    assert_eq!(fact["lines"][2], call);
    assert_eq!(read("--json --by cpl --limit 1")["left_out"], 1);
    Ok(())
}

fn folded() -> Verdict {
    let expected = "\
cat;main 30
cat;main;fact 20
cat;main;fact;fact 8
cat;main;fact;fact;fact 2
cat;main;fact;[interrupt 0xec];irq_entry 12
cat;main;[system call];entry_SYSCALL_64 15
cat;main;[system call];entry_SYSCALL_64;do_syscall 50
sort;0x500000 40
sort;0x500000;[exception 14 #PF];0xffffffff81000300 7
";
    let file = sample_file("folded");
    assert_eq!(printed(&file, "--folded -"), expected);
    let out = path("folded-out");
    let options = format!("--event loads --folded {}", out.display());
    assert_eq!(printed(&file, &options), "");
    let loads = std::fs::read_to_string(out).expect("stacks");
    // The innermost call of fact loads nothing.
    assert_eq!(loads.lines().count(), 8);
    assert!(loads.starts_with("cat;main 10\ncat;main;fact 2\ncat;main;fact;fact 1\n"), "{loads}");
    Ok(())
}

/// The function that calls itself costs 20 + 8 + 2 and, when main called it, the 12 of the interrupt as
/// well. What it called itself costs 8 + 2: not the 2 again for the call within.
fn callgrind() -> Verdict {
    let text = printed(&sample_file("callgrind"), "--callgrind -");
    let own = "\nfn=(2)\n0x401040 11 3\n0x401042 11 0\n0x401048 6 0\n0x40104d 2 0\n";
    let (_, rest) = text.split_once(own).expect("what fact costs itself");
    let (rest, _) = rest.split_once("\n\n").expect("an empty line behind each function");
    assert!(rest.contains("calls=3 0xffffffff81000200\n0x401042 12 6\n"), "{text}");
    assert!(rest.ends_with("cfn=(2)\ncalls=6 0x401040\n0x401048 10 1"), "{text}");
    assert!(text.contains("cfn=(2) fact\ncalls=5 0x401040\n0x401000 42 9\n"), "{text}");
    assert!(text.contains("calls=5 0xffffffff81000000\n0x401005 65 30\n"), "{text}");
    assert!(text.contains("calls=5 0xffffffff81000000\n0xffffffff81000000 65 30\n"), "{text}");
    assert!(text.contains("calls=1 0xffffffff81000300\n0x700123 7 3\n"), "{text}");
    assert!(text.contains("\npositions: instr\nevents: instructions loads\n"), "{text}");
    assert!(text.ends_with("\ntotals: 184 56\n"), "{text}");
    Ok(())
}

fn calls_without_a_context_are_mentioned() -> Verdict {
    let file = path("flattened");
    Truth { flattened: 7, ..sample::truth() }.write(&file).expect("a truth file");
    let note = "vpmu: 7 calls were too deep or too many, and are counted in their callers\n";
    let (text, error, status) = vpmu_truth(&file, "--callgrind -");
    assert!(text.contains("\ndesc: Calls that are counted in their caller: 7\n"), "{text}");
    assert_eq!((&*error, status), (note, Some(0)));
    assert_eq!(vpmu_truth(&file, "--folded -").1, note);
    // No function has another count for it.
    assert_eq!(vpmu_truth(&file, "").1, "");
    Ok(())
}

fn what_is_not_there_is_one_line() -> Verdict {
    let file = sample_file("absent");
    for (options, expected) in [
        ("--event load", "no event \"load\" in the file; did you mean loads?"),
        ("--function fakt", "no function \"fakt\" in the file; did you mean fact?"),
        ("--space sord", "no space \"sord\" in the file; did you mean sort?"),
    ] {
        let (text, error, status) = vpmu_truth(&file, options);
        assert_eq!((&*text, status), ("", Some(2)), "{options}");
        assert_eq!(error, format!("vpmu: {expected}\n"), "{options}");
    }
    let (_, error, status) = vpmu_truth(&file, "--callgrind /nonexistent/out");
    assert!(error.starts_with("vpmu: cannot write /nonexistent/out: "), "{error}");
    assert_eq!(status, Some(6));
    let (_, error, status) = vpmu_truth("/nonexistent/truth".as_ref(), "");
    assert!(error.starts_with("vpmu: cannot read /nonexistent/truth: "), "{error}");
    assert_eq!(status, Some(4));
    Ok(())
}
