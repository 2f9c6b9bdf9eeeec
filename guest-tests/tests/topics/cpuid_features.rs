//! The K8's registers that answer for what CPUID says of features, and the passcode that they want. AMD
//! 26094 keeps them to firmware; AMD 31116, of the next family, has them as MSRC001_1004 and
//! MSRC001_1005.

use guest_tests::guest::NO_FAULT;
use guest_tests::{Guest, Part, Result, run};
use iced_x86::code_asm::{eax, ecx, edi, edx};

topics!(the_passcode_is_wanted, cpuid_says_what_was_written);

/// Index, function.
const REGISTERS: [(u32, u32); 2] = [(0xC001_1004, 1), (0xC001_1005, 0x8000_0001)];
const PASSCODE: u32 = 0x9C5A_203A;
/// What a fault leaves: 100h and the vector of #GP.
const GP_FAULT: u64 = 0x10D;

/// ECX and EDX of a function, as EDX:EAX.
fn features(g: &mut Guest, function: u32) -> Result {
    g.mov(eax, function)?;
    g.cpuid()?;
    g.mov(eax, edx)?;
    g.mov(edx, ecx)
}

fn the_passcode_is_wanted(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        for (index, _) in REGISTERS {
            g.mov(edi, 0)?;
            g.probe(&format!("read{index:x}"), |g| g.read_msr(index))?;
            g.probe(&format!("write{index:x}"), |g| g.write_msr(index, 0))?;
            g.mov(edi, PASSCODE)?;
            g.read_msr(index)?;
            g.report(&format!("value{index:x}"))?;
            g.wrmsr()?;
        }
        Ok(())
    })?;
    let outcome = run(part, &image);
    for (index, _) in REGISTERS {
        outcome.expect(&[
            (&format!("read{index:x}"), GP_FAULT),
            (&format!("write{index:x}"), GP_FAULT),
        ]);
    }
    // SSE3 and LAHF_LM in ECX.
    outcome.expect(&[("valuec0011004", 0x1_078B_FBFF), ("valuec0011005", 0x1_E3D3_FBFF)]);
    Ok(())
}

fn cpuid_says_what_was_written(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        for (index, function) in REGISTERS {
            features(g, function)?;
            g.report(&format!("before{index:x}"))?;
            g.mov(edi, PASSCODE)?;
            g.probe(&format!("write{index:x}"), |g| {
                g.mov(ecx, index)?;
                g.mov(eax, 0x0000_0211)?;
                g.mov(edx, 2)?;
                g.wrmsr()
            })?;
            features(g, function)?;
            g.report(&format!("after{index:x}"))?;
        }
        Ok(())
    })?;
    run(part, &image).expect(&[
        ("beforec0011004", 0x1_078B_FBFF),
        ("writec0011004", NO_FAULT),
        ("afterc0011004", 0x2_0000_0211),
        ("beforec0011005", 0x1_E3D3_FBFF),
        ("writec0011005", NO_FAULT),
        ("afterc0011005", 0x2_0000_0211),
    ]);
    Ok(())
}
