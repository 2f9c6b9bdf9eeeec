//! The guest program that writes a command's exit status to the debug-exit port.
//!
//! Distribution kernels have no `/dev/port`, so it asks for the port with `ioperm` and writes it
//! itself.

use super::static_program::static_program;

/// `vpmu-exit STATUS`: `ioperm(F4h, 1, 1)`, then OUT; exit status 1 if the machine goes on.
#[rustfmt::skip]
const CODE: &[u8] = &[
    0x48, 0x8B, 0x74, 0x24, 0x10, //        mov rsi, [rsp+16]   ; argv[1]
    0x31, 0xDB,                   //        xor ebx, ebx
    0xAC,                         // digit: lodsb
    0x2C, 0x30,                   //        sub al, '0'
    0x3C, 0x09,                   //        cmp al, 9
    0x77, 0x0A,                   //        ja done
    0x0F, 0xB6, 0xC0,             //        movzx eax, al
    0x6B, 0xDB, 0x0A,             //        imul ebx, ebx, 10
    0x01, 0xC3,                   //        add ebx, eax
    0xEB, 0xEF,                   //        jmp digit
    0xBF, 0xF4, 0x00, 0x00, 0x00, // done:  mov edi, 0F4h
    0x6A, 0x01,                   //        push 1
    0x5E,                         //        pop rsi
    0x89, 0xF2,                   //        mov edx, esi
    0xB8, 0xAD, 0x00, 0x00, 0x00, //        mov eax, 173        ; ioperm
    0x0F, 0x05,                   //        syscall
    0x85, 0xC0,                   //        test eax, eax
    0x75, 0x04,                   //        jnz fail
    0x89, 0xD8,                   //        mov eax, ebx
    0xE6, 0xF4,                   //        out 0F4h, al
    0x6A, 0x01,                   // fail:  push 1
    0x5F,                         //        pop rdi
    0xB8, 0x3C, 0x00, 0x00, 0x00, //        mov eax, 60         ; exit
    0x0F, 0x05,                   //        syscall
];

/// The program as a file.
pub(super) fn executable() -> Vec<u8> {
    static_program(CODE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::elf::Elf;

    #[test]
    fn it_is_a_static_executable() {
        let file = executable();
        let elf = Elf::parse("exit", &file).unwrap();
        assert_eq!(elf.interpreter(), None);
        assert_eq!(elf.physical_entry(), 0x40_0078);
        assert_eq!(file[0x78..0x7D], [0x48, 0x8B, 0x74, 0x24, 0x10]);
    }
}
