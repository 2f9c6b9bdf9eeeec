//! Which frame on the stack leads back to the instruction: privilege levels, gates and modes, with and
//! without an error code.

use iced_x86::code_asm::*;

use super::*;

#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn rdpmc_at_privilege_0_in_64_bit_mode() {
    // Interrupt and trap gates, with and without IST.
    for (kind, ist) in [(0x8e, 0), (0x8f, 0), (0x8e, 1), (0x8f, 1)] {
        let mut guest = Guest::long();
        guest.set_gate(IDT, vector::GP, kind, ist);
        guest.load(CODE, 64, |a| {
            three_rdpmc(a);
            a.hlt().unwrap();
        });
        guest.run();
        three_rdpmc_are_right(&guest);
        assert_eq!((guest.count(vector::GP), guest.stops), (1, 3), "the third is the guest's");
        assert_eq!(guest.cpu.gpr(4), KERNEL_STACK - 0x100);
    }
}

/// At privilege 3 CR4.PCE decides (APM volume 3, "RDPMC").
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn rdpmc_at_privilege_3() {
    for (pce, genuine) in [(CR4_PCE, 1), (0, 3)] {
        let mut guest = Guest::user();
        guest.cpu.set_control(guest.cpu.cr0(), TABLES, 0x620 | pce, 0x500);
        guest.load(USER_CODE, 64, |a| {
            three_rdpmc(a);
            a.cli().unwrap();
        });
        guest.run();
        assert_eq!(guest.count(vector::GP), genuine + 1, "and that of CLI");
        if pce != 0 {
            three_rdpmc_are_right(&guest);
        }
    }
}

/// RDPMC in 32-bit protected mode where #GP goes through a gate of this type.
fn rdpmc_with_gate(kind: u64) {
    let mut guest = Guest::protected();
    guest.set_gate(IDT, vector::GP, kind, 0);
    if kind & 8 == 0 {
        guest.load(HANDLERS + 64 * 13, 32, |a| {
            a.inc(dword_ptr(COUNTS as u32 + 8 * 13)).unwrap();
            a.add(esp, 2).unwrap();
            a.add(word_ptr(esp), 2).unwrap();
            a.iret().unwrap();
        });
    }
    guest.load(CODE, 32, |a| {
        three_rdpmc(a);
        a.hlt().unwrap();
    });
    guest.run();
    three_rdpmc_are_right(&guest);
    assert_eq!((guest.count(vector::GP), guest.stops), (1, 3), "gate type {kind:#x}");
    assert_eq!(guest.cpu.gpr(4), KERNEL_STACK - 0x100);
}

/// 32-bit interrupt and trap gates: doublewords on the stack.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn rdpmc_in_protected_mode() {
    for kind in [0x8e, 0x8f] {
        rdpmc_with_gate(kind);
    }
}

/// 16-bit interrupt and trap gates: words. A KVM that runs guests without VMX and SVM pushes
/// doublewords through them.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
#[cfg_attr(
    all(host_kvm, not(host_vmx), not(host_svm)),
    ignore = "KVM had neither VMX nor SVM when this was built"
)]
fn rdpmc_in_protected_mode_with_16_bit_gates() {
    for kind in [0x86, 0x87] {
        rdpmc_with_gate(kind);
    }
}

/// Three words on the stack, no error code, the vector table at zero.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn rdpmc_in_real_mode() {
    let mut guest = Guest::new();
    guest
        .cpu
        .set_segment(seg::CS, Segment { selector: 0, base: 0, limit: 0xffff, attributes: 0x9b });
    guest.cpu.set_control(0x10, 0, 0, 0);
    guest.cpu.idtr = DescriptorTable { base: 0, limit: 0x3ff };
    guest.write(4 * 13, &(HANDLERS as u32).to_le_bytes());
    guest.load(HANDLERS, 16, |a| {
        a.push(bp).unwrap();
        a.mov(bp, sp).unwrap();
        a.inc(word_ptr(0x700)).unwrap();
        a.add(word_ptr(bp + 2), 2).unwrap();
        a.pop(bp).unwrap();
        a.iret().unwrap();
    });
    guest.load(CODE, 16, |a| {
        three_rdpmc(a);
        // INT 13: a frame like that of #GP, but for an instruction that nothing is wrong with.
        a.int(13).unwrap();
        a.nop().unwrap();
        a.nop().unwrap();
        a.inc(bx).unwrap();
        a.hlt().unwrap();
    });
    guest.cpu.set_gpr(4, 0x3000);
    guest.cpu.set_gpr(3, 0);
    guest.cpu.rip = CODE;
    guest.run();
    three_rdpmc_are_right(&guest);
    // The handler ran for the third RDPMC and for INT 13, where it skipped the NOPs.
    assert_eq!((guest.quad(0x700), guest.cpu.gpr(3)), (2, 1));
}

/// SPFLT and DELAY, which are C5 FB AE F2 and C5 FA AE F0 (KNC instruction set reference), and UD2,
/// which is nobody's: #UD has no error code.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn spflt_and_delay() {
    let program = |a: &mut CodeAssembler, end: u8| {
        a.mov(edx, 1).unwrap();
        a.db(&[0xc5, 0xfb, 0xae, 0xf2]).unwrap();
        a.mov(eax, 5).unwrap();
        a.db(&[0xc5, 0xfa, 0xae, 0xf0]).unwrap();
        a.xor(edx, edx).unwrap();
        a.db(&[0xc5, 0xfb, 0xae, 0xf2]).unwrap();
        a.ud2().unwrap();
        a.db(&[end]).unwrap();
    };
    let mut user = Guest::user();
    user.load(USER_CODE, 64, |a| program(a, 0xfa));
    user.run();
    assert_eq!(user.count(vector::UD), 1, "UD2");
    assert_eq!((user.stops, user.failures), (5, 0), "and the #GP of CLI");
    let mut kernel = Guest::long();
    kernel.load(CODE, 64, |a| program(a, 0xf4));
    kernel.run();
    assert_eq!(kernel.count(vector::UD), 1, "UD2");
    assert!(kernel.stops + kernel.failures >= 4);
    // Each thread says what it wants: on, off (EDX bit 0).
    for guest in [user, kernel] {
        assert_eq!(guest.outside.preferences, [true, false]);
    }
}

/// #UD and #GP with one and the same handler, which the frames tell apart.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn one_handler_for_both() {
    let mut guest = Guest::user();
    guest.cpu.set_control(guest.cpu.cr0(), TABLES, 0x620 | CR4_PCE, 0x500);
    let gate = guest.quad(IDT + 16 * 13);
    guest.gate(IDT, vector::UD, 16, gate);
    guest.load(USER_CODE, 64, |a| {
        a.mov(edx, 1).unwrap();
        a.db(&[0xc5, 0xfb, 0xae, 0xf2]).unwrap();
        a.mov(ecx, 1).unwrap();
        a.rdpmc().unwrap();
        a.cli().unwrap();
    });
    guest.run();
    assert_eq!((guest.pair(), guest.count(vector::GP)), (COUNTER, 1));
    assert_eq!(guest.outside.preferences, [true]);
}
