//! What KVM does not execute at all.

use iced_x86::code_asm::*;

use super::*;

/// What KVM's emulator does not know at privilege 0 on the pagetable kind; elsewhere all of it just
/// executes.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn what_kvm_cannot_emulate() {
    let mut guest = Guest::long();
    guest.set_gate(IDT, 3, 0x8e, 0);
    guest.write(0x700, &[1_u64.to_le_bytes(), 2_u64.to_le_bytes()].concat());
    guest.load(CODE, 64, |a| {
        // 2 + 3 in XMM0, 1 on the x87 stack.
        a.mov(eax, 2).unwrap();
        a.cvtsi2sd(xmm0, eax).unwrap();
        a.mov(eax, 3).unwrap();
        a.cvtsi2sd(xmm1, eax).unwrap();
        a.addsd(xmm0, xmm1).unwrap();
        a.cvttsd2si(esi, xmm0).unwrap();
        a.fninit().unwrap();
        a.fld1().unwrap();
        a.fistp(dword_ptr(0x720)).unwrap();
        // 2:1 is there: 4:3 replaces it.
        a.mov(eax, 1).unwrap();
        a.mov(edx, 2).unwrap();
        a.mov(ebx, 3).unwrap();
        a.mov(ecx, 4).unwrap();
        a.cmpxchg16b(ptr(0x700)).unwrap();
        a.int3().unwrap();
        a.int(20).unwrap();
        a.nop().unwrap();
        a.nop().unwrap();
        a.hlt().unwrap();
    });
    guest.run();
    assert_eq!((guest.cpu.gpr(6), guest.quad(0x720) as u32), (5, 1));
    assert_eq!((guest.quad(0x700), guest.quad(0x708)), (3, 4));
    assert_eq!((guest.count(3), guest.count(20), guest.count(vector::UD)), (1, 1, 0));
    eprintln!("kvm: {} instructions were left to the software CPU", guest.failures);
}

/// Paging outside long mode (APM volume 2, section 5.2.1): a KVM without it raises #GP for the MOV to
/// CR0; the software CPU executes it, and keeps the guest.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn paging_that_kvm_refuses() {
    let mut guest = Guest::protected();
    let support = support();
    // One to one, but for 0070_0000h, which is the 4 MiB page at zero as well.
    guest.write(TABLES, &0x87_u32.to_le_bytes());
    guest.write(TABLES + 4, &0x87_u32.to_le_bytes());
    guest.write(0x700, &0x5678_u32.to_le_bytes());
    guest.load(CODE, 32, |a| {
        a.mov(eax, 0x10).unwrap();
        a.mov(cr4, eax).unwrap();
        a.mov(eax, TABLES as u32).unwrap();
        a.mov(cr3, eax).unwrap();
        a.mov(eax, cr0).unwrap();
        a.or(eax, 0x8000_0000_u32).unwrap();
        a.mov(cr0, eax).unwrap();
        a.mov(esi, dword_ptr(0x40_0700)).unwrap();
        a.hlt().unwrap();
    });
    guest.run();
    assert_eq!((guest.cpu.gpr(6), guest.count(vector::GP)), (0x5678, 0));
    assert_eq!(guest.left_kvm, !support.legacy_paging);
}

/// INT n at privilege 3, through a gate that lets it, in 64-bit mode.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn int_n_at_privilege_3() {
    let mut guest = Guest::user();
    guest.set_gate(IDT, 20, 0xee, 0);
    guest.load(USER_CODE, 64, |a| {
        a.int(20).unwrap();
        a.nop().unwrap();
        a.nop().unwrap();
        a.inc(r9).unwrap();
        a.cli().unwrap();
    });
    guest.cpu.set_gpr(9, 0);
    guest.run();
    assert_eq!((guest.count(20), guest.count(vector::UD), guest.cpu.gpr(9)), (1, 0, 1));
}

/// x87 at privilege 3 outside long mode, where the pagetable kind interprets user code as well.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn x87_at_privilege_3_outside_long_mode() {
    let mut guest = Guest::protected();
    guest.cpu.set_segment(seg::CS, flat(USER_CODE32, 0xc0fb));
    for n in [seg::ES, seg::SS, seg::DS, seg::FS, seg::GS] {
        guest.cpu.set_segment(n, flat(USER_DATA, 0xc0f3));
    }
    guest.cpu.set_cpl(3);
    guest.cpu.set_gpr(4, USER_STACK);
    // ESP0 and SS0 (APM volume 2, figure 12-5).
    guest.write(TSS + 4, &(KERNEL_STACK as u32).to_le_bytes());
    guest.write(TSS + 8, &DATA.to_le_bytes());
    guest.load(HANDLERS + 64 * 13, 32, |a| {
        a.inc(dword_ptr(COUNTS as u32 + 8 * 13)).unwrap();
        a.hlt().unwrap();
    });
    guest.load(CODE, 32, |a| {
        a.fninit().unwrap();
        a.fld1().unwrap();
        a.fistp(dword_ptr(0x720)).unwrap();
        a.cli().unwrap();
    });
    guest.run();
    assert_eq!(
        (guest.quad(0x720) as u32, guest.count(vector::UD), guest.count(vector::GP)),
        (1, 0, 1)
    );
}
