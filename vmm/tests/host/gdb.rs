//! Debian's own gdb on a guest in KVM, and on Knights Corner's vector unit.

use iced_x86::IcedError;
use iced_x86::code_asm::{al, dword_ptr, dx, eax, ebx, ecx, edx, esi};
use vpmu::program::{DATA, Image, Program};

use super::*;
use crate::gdb_client::{address, assert_in_order, folder, is_there, said, start};

tests!(
    a_guest_is_debugged_on_kvm,
    a_guest_is_debugged_with_interrupt_controllers_in_the_kernel,
    a_loop_without_end_is_interrupted_on_kvm,
    the_vector_unit_is_seen_and_goes_with_a_snapshot,
);

/// PerfEvtSel0 of the K8 (BKDG 26094, section 10.2).
const SELECT: u32 = 0xC001_0000;
/// Instructions retired, at all levels, enabled.
const COUNTS: u64 = 0x0043_00C0;

/// Adds up 1 to 100 ("loop"), counts seven instructions ("counted" is the third of them), prints A and ends, or goes
/// on for ever behind that ("forever").
fn guest(ends: bool) -> Result<Image, IcedError> {
    let mut program = Program::new()?;
    let p = &mut program;
    // Of numbers that a debugger shows in all its forms.
    p.mov(esi, 0x8765_4321_u32)?;
    p.mov(dword_ptr(DATA), 0x1234_5678)?;
    p.xor(ebx, ebx)?;
    p.mov(ecx, 100)?;
    let again = p.mark("loop")?;
    p.add(ebx, ecx)?;
    p.dec(ecx)?;
    p.jnz(again)?;
    p.mark("summed")?;
    p.mov(dword_ptr(DATA + 4), ebx)?;
    p.write_msr(SELECT, COUNTS)?;
    p.nop()?;
    p.nop()?;
    p.mark("counted")?;
    p.nop()?;
    p.write_msr(SELECT, 0)?;
    p.mark("behind")?;
    p.mov(ecx, 0)?;
    p.rdpmc()?;
    p.mark("read")?;
    p.mov(dword_ptr(DATA + 8), eax)?;
    p.mov(edx, 0x3F8)?;
    // '@' and seven.
    p.add(eax, 0x40)?;
    p.out(dx, al)?;
    if !ends {
        p.mark("forever")?;
        let forever = p.here()?;
        p.inc(dword_ptr(DATA + 12))?;
        p.jmp(forever)?;
    }
    p.mov(eax, 5)?;
    p.mov(edx, 0xF4)?;
    p.out(dx, al)?;
    program.finish()
}

/// MOV, MOV, MOV and WRMSR end what counts three NOPs: 3 + 4. 40h + 7 is 'G'; status 2 * 5 + 1.
const PRINTED: (&str, Option<i32>) = ("G", Some(11));

/// The command that runs a guest on KVM.
fn run(name: &str, image: &Image, options: &[&str]) -> Command {
    vpmu(name, &image.bytes, image.load_address, options)
}

fn a_guest_is_debugged_on_kvm() -> Verdict {
    debug("user")
}

fn a_guest_is_debugged_with_interrupt_controllers_in_the_kernel() -> Verdict {
    debug("kernel")
}

/// By registers, memory, breakpoints of both kinds, steps, more breakpoints than KVM has, a watchpoint and the PMU;
/// and, once gdb is gone, to the end of the run that was not debugged.
fn debug(irqchip: &str) -> Verdict {
    kvm()?;
    is_there()?;
    let image = guest(true).expect("a guest");
    let name = format!("kvm-{irqchip}");
    let options = ["--irqchip", irqchip];
    let undebugged = finish(&mut run(&name, &image, &options));
    let printed =
        |run: &Output| (String::from_utf8_lossy(&run.stdout).into_owned(), run.status.code());
    assert_eq!(printed(&undebugged), (PRINTED.0.into(), PRINTED.1));
    let folder = folder(&name);
    let address = address(&folder);
    let options = [&options[..], &["--gdb", &address, "--timeout", "50"]].concat();
    let mut command = run(&name, &image, &options);
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("vpmu");
    let at = |name: &str| format!("*{:#x}", image.symbol(name).expect("a symbol"));
    let [summing, summed, counted, behind, read] =
        ["loop", "summed", "counted", "behind", "read"].map(at);
    let commands = format!(
        "\
break {summing}
continue
continue
p $ecx
p $ebx
info registers esi
x/1xw {DATA:#x}
stepi
p $ebx
delete
hbreak {summed}
continue
p $ebx
p $cr0 & 1
info threads
delete
break {counted}
hbreak {behind}
continue
monitor pmu
monitor msr read PerfCtr0
stepi
monitor msr read C0010004
continue
monitor msr read PerfCtr0
delete
watch *(int*){:#x}
break {read}
break *0x1000
break *0x1004
break *0x1008
continue
continue
monitor msr write PerfCtr3 1234
monitor msr read PerfCtr3
reverse-stepi
",
        DATA + 8
    );
    let text = said(start(&folder, &commands));
    assert_in_order(
        &text,
        &[
            "Breakpoint 1, ",
            "Breakpoint 1, ",
            "$1 = 99",
            "$2 = 100",
            "0x87654321",
            "0x12345678",
            "$3 = 199",
            "Breakpoint 2, ",
            "$4 = 5050",
            "$5 = 1",
            "processor 0, CPL 0, ",
            // In the counted stretch: two NOPs, then the third.
            "Breakpoint 3, ",
            "RETIRED_INSTRUCTIONS",
            "C0010004h = 0x2\n",
            "C0010004h = 0x3\n",
            "Breakpoint 4, ",
            "C0010004h = 0x7\n",
            "Breakpoint 6, ",
            "Hardware watchpoint 5: ",
            "New value = 7",
            "C0010007h = 0x1234\n",
            // That ends the script, and gdb lets the guest go.
            "does not support this command",
            "detached",
        ],
    );
    assert_eq!(printed(&wait_for(child)), (PRINTED.0.into(), PRINTED.1));
    Ok(())
}

/// Ctrl-C stops a guest that never leaves KVM by itself, and it goes on.
fn a_loop_without_end_is_interrupted_on_kvm() -> Verdict {
    kvm()?;
    is_there()?;
    let image = guest(false).expect("a guest");
    let folder = folder("kvm-forever");
    let address = address(&folder);
    let options = ["--gdb", &address, "--timeout", "50"];
    let mut command = run("kvm-forever", &image, &options);
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("vpmu");
    let forever = image.symbol("forever").expect("a symbol");
    let commands = format!(
        "continue\np $pc >= {forever:#x} && $pc < {:#x}\np *(int*){:#x} > 0\nkill\n",
        forever + 8,
        DATA + 12
    );
    let gdb = start(&folder, &commands);
    // It says G when it begins to go on for ever.
    let mut first = [0];
    std::io::Read::read_exact(child.stdout.as_mut().expect("a pipe"), &mut first).expect("G");
    thread::sleep(Duration::from_millis(200));
    let sent = Command::new("kill").args(["-INT", &gdb.id().to_string()]).status();
    assert!(sent.expect("kill").success());
    let text = said(gdb);
    assert_in_order(&text, &["received signal SIGINT", "$1 = 1", "$2 = 1"]);
    // What gdb ends: see `docs/gdb.md`.
    assert_eq!((wait_for(child).status.code(), first), (Some(128), *b"G"));
    Ok(())
}

/// Registers of the vector unit by name and type: what is set is there, and there again in a machine that goes on from a
/// snapshot. VXCSR is 20_0000h after reset, DUE, which the part cannot clear (docs/cpu.md).
fn the_vector_unit_is_seen_and_goes_with_a_snapshot() -> Verdict {
    is_there()?;
    let image = guest(false).expect("a guest");
    let folder = folder("vector-unit");
    let address = address(&folder);
    let wait = ["--gdb", &address, "--timeout", "50"];
    let quiet = |command: &mut Command| {
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("vpmu")
    };
    let options = [&["--cpu", "knc", "--engine", "soft"], &wait[..]].concat();
    let child = quiet(&mut vpmu("vector-unit", &image.bytes, image.load_address, &options));
    let snapshot = folder.join("vector.snapshot");
    let show = "\
p $zmm31.v8_int64[7]
p $zmm30
p $zmm5.v16_int32[3]
p $k1
p $k7
p $vxcsr
p/x (int)$vxcsr
";
    let commands = format!(
        "\
p (int)$vxcsr
set $zmm31.v16_int32[15] = 7
set $zmm5.v8_double[1] = 1.5
set $k1 = 0x8001
set $vxcsr = 0x20a001
{show}
monitor save {}
set $vxcsr = 0
",
        snapshot.display()
    );
    // 7 in the upper half of a quadword; the upper half of 1.5, 3FF8_0000h.
    let shown = [
        " = 30064771072\n",
        "v16_float = {0 <repeats 16 times>}",
        " = 1073217536\n",
        " = 32769\n",
        " = 0\n",
        "[ IE RC=1 FZ DUE ]",
        " = 0x20a001\n",
    ];
    let text = said(start(&folder, &commands));
    let refused = "Could not write register \"vxcsr\"";
    assert_in_order(&text, &[&["$1 = 2097152\n"], &shown[..], &[refused]].concat());
    end(child);
    let _ = std::fs::remove_file(folder.join("socket"));
    let mut loads = Command::new(env!("CARGO_BIN_EXE_vpmu"));
    let child = quiet(loads.args(["run", "--load"]).arg(&snapshot).args(wait));
    assert_in_order(&said(start(&folder, show)), &shown);
    end(child);
    Ok(())
}

/// gdb has let it go, and it would run on.
fn end(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}
