//! It says where and why it stopped: ways to fail, each with its cause in one line.

use super::*;

tests!(hlt_with_if_clear, no_idt,);

/// Runs a guest on the software engine as `options` say; what the run says, with its status.
fn stopped(name: &str, code: &[u8], address: u64, options: &[&str]) -> (String, Option<i32>) {
    let options = [&["--engine", "soft"], options].concat();
    let run = finish(&mut vpmu(&format!("stopped-{name}"), code, address, &options));
    (String::from_utf8_lossy(&run.stderr).into_owned(), run.status.code())
}

/// CLI; HLT in real mode. A flat payload below 1 MiB begins at its address / 16 in CS.
fn hlt_with_if_clear() -> Verdict {
    let (text, status) = stopped("hlt", HALT, 0x7C00, &["--smp", "4"]);
    let expected = "\
vpmu: every processor is halted for good
vpmu: vcpu 0: halted by HLT with IF clear: no interrupt wakes it; CPL 0, real mode, next 07c0:0002
vpmu: vcpus 1-3: waiting for a start-up IPI
";
    assert_eq!((text.as_str(), status), (expected, Some(HALTED.1)));
    Ok(())
}

/// UD2 in protected mode without an interrupt table: #UD is vector 6. The error code of the #GP on its way
/// has the vector times 8, IDT (2) and EXT (1): AMD64 APM volume 2, "Error Codes".
fn no_idt() -> Verdict {
    let (text, status) = stopped("no-idt", &[0x0F, 0x0B], 0x10_0000, &[]);
    let expected = "\
vpmu: triple fault on processor 0
vpmu: vcpu 0: at 0010:00100000: ud2; CPL 0, 32-bit protected mode, IF clear
vpmu:   #UD at 0010:00100000; not delivered: the IDT, base 0h and limit 0h, has no entry 6
vpmu:   then #GP(33h) and #DF(0h), not delivered either
";
    assert_eq!((text.as_str(), status), (expected, Some(126)));
    Ok(())
}
