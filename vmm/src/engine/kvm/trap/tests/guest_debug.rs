//! Guests that debug themselves while we have breakpoints.

use iced_x86::code_asm::*;

use super::*;

/// A guest with a breakpoint of its own has the debug registers; it sees #GP until it gives them back
/// and its registers have been looked at again.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn a_guest_that_uses_its_debug_registers() {
    let mut guest = Guest::long();
    guest.load(CODE, 64, |a| {
        let exits = |a: &mut CodeAssembler| {
            let mut again = a.create_label();
            a.mov(ebx, 2 * LOOK_EVERY).unwrap();
            a.set_label(&mut again).unwrap();
            a.out(0x80, al).unwrap();
            a.dec(ebx).unwrap();
            a.jnz(again).unwrap();
        };
        a.mov(eax, 0x7777).unwrap();
        a.mov(dr0, rax).unwrap();
        a.mov(eax, 0x402).unwrap();
        a.mov(dr7, rax).unwrap();
        exits(a);
        a.xor(ecx, ecx).unwrap();
        a.rdpmc().unwrap();
        a.mov(eax, 0x400).unwrap();
        a.mov(dr7, rax).unwrap();
        exits(a);
        three_rdpmc(a);
        a.hlt().unwrap();
    });
    guest.run();
    three_rdpmc_are_right(&guest);
    assert_eq!(guest.count(vector::GP), 2, "one while yielded, one that is no counter");
    assert_eq!(guest.cpu.debug_registers().addresses[0], 0x7777);
}

/// Traps of the guest's own come to its handler while we have breakpoints: one for each of the three
/// instructions that begin with TF set (APM volume 2, section 13.1.4).
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn a_guest_that_single_steps() {
    let mut guest = Guest::long();
    guest.load(HANDLERS + 64, 64, |a| {
        a.inc(dword_ptr(COUNTS as u32 + 8)).unwrap();
        a.mov(r8, dr6).unwrap();
        a.iretq().unwrap();
    });
    guest.load(CODE, 64, |a| {
        a.xor(ecx, ecx).unwrap();
        a.pushfq().unwrap();
        a.or(dword_ptr(rsp), 0x100).unwrap();
        a.popfq().unwrap();
        a.pushfq().unwrap();
        a.and(dword_ptr(rsp), !0x100).unwrap();
        a.popfq().unwrap();
        a.rdpmc().unwrap();
        a.hlt().unwrap();
    });
    guest.run();
    assert_eq!(guest.pair(), COUNTER);
    assert_eq!((guest.count(vector::DB), guest.count(vector::GP)), (3, 0));
    assert_eq!(guest.cpu.gpr(8) & 0xe00f, 0x4000, "DR6.BS");
}
