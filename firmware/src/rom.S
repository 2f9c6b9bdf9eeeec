# The boot ROM. README.md says what it does and where everything is; map.rs has the addresses of the
# handover block and of RAM, which come as symbols.
#
# It is linked for its copy in RAM. Before the copy exists nothing but the reset vector runs.
# Only instructions of the Pentium, except where the payload is 64-bit code.

.intel_syntax noprefix

# Selectors of the ROM's own GDT.
.equ CODE32, 0x08
.equ DATA32, 0x10
.equ CODE16, 0x18
.equ DATA16, 0x20

# Local APIC (SDM volume 3, "Local APIC Register Address Map").
.equ LAPIC, 0xFEE00000
.equ LAPIC_ID, LAPIC + 0x020
.equ LAPIC_SVR, LAPIC + 0x0F0
.equ LAPIC_ICR_LOW, LAPIC + 0x300
.equ LAPIC_ICR_HIGH, LAPIC + 0x310
.equ LAPIC_LINT0, LAPIC + 0x350
.equ LAPIC_LINT1, LAPIC + 0x360
.equ ICR_INIT, 0x4500
.equ ICR_START_UP, 0x4600
.equ ICR_ALL_BUT_SELF, 0x000C0000

.equ COM1, 0x3F8
.equ COM1_LINE_STATUS, 0x3FD
.equ TRANSMITTER_EMPTY, 1 << 5
.equ PM_TIMER, 0x608
.equ PM_TIMER_BITS, 0xFFFFFF
.equ TENTH_SECOND, 357955          # of the timer's 3.579545 MHz

.equ CR0_PE_ET, 0x11
.equ EFER, 0xC0000080
.equ TSS_BUSY, 1 << 1              # in the type of a descriptor

# Variables and stacks. One application processor at a time has the second stack.
.equ FAILURES, SCRATCH             # what has failed so far
.equ PROGRESS, SCRATCH + 4         # of the application processor: 0, STARTED, DONE
.equ FAR_LONG, SCRATCH + 8         # operand of the far jump to 64-bit code
.equ STACK, SCRATCH_END
.equ STACK_OF_OTHERS, SCRATCH_END - 0x800
.equ STARTED, 1; .equ DONE, 2

.text
.code16
# Every processor begins here, in real mode at SHADOW / 16 : 0: processor 0 from the reset vector,
# the others by their start-up IPI.
.globl rom
rom:
    cli
    lgdt cs:[gdt_pointer - rom]
    mov eax, CR0_PE_ET             # caches on: CD and NW clear
    mov cr0, eax
    data32 ljmp CODE32, offset protected

.code32
protected:
    mov eax, DATA32
    mov ds, eax; mov es, eax; mov ss, eax
    lidt [idt_pointer]
    mov ebp, [LAPIC_ID]
    shr ebp, 24                    # EBP stays the number of the processor
    jnz other_processor

    # Processor 0.
    mov esp, STACK
    mov dword ptr [FAILURES], 0
    mov eax, offset text_title
    call print
    mov eax, [TITLE]
    call print
    call newline
    call set_msrs
    # Virtual wire mode (MultiProcessor Specification 1.4, section 3.6.2.2).
    mov dword ptr [LAPIC_SVR], 0x1FF
    mov dword ptr [LAPIC_LINT0], 0x700 # ExtINT
    mov dword ptr [LAPIC_LINT1], 0x400 # NMI
    call test_pmu
    mov ebx, 1
1:  cmp ebx, [PROCESSORS]
    jae 2f
    call start_processor
    inc ebx
    jmp 1b
2:  # The others wait for the payload's start-up IPI, as after power-up.
    mov dword ptr [LAPIC_ICR_HIGH], 0
    mov dword ptr [LAPIC_ICR_LOW], ICR_ALL_BUT_SELF | ICR_INIT
    mov eax, offset text_passed
    cmp dword ptr [FAILURES], 0
    je 3f
    mov eax, offset text_failed
3:  call print
    jmp hand_over

other_processor:
    mov esp, STACK_OF_OTHERS
    mov dword ptr [PROGRESS], STARTED
    call set_msrs
    call test_pmu
    mov dword ptr [PROGRESS], DONE
1:  hlt; jmp 1b

# Starts processor EBX and waits until it has tested itself.
start_processor:
    mov dword ptr [PROGRESS], 0
    mov eax, ebx
    shl eax, 24
    mov [LAPIC_ICR_HIGH], eax
    mov dword ptr [LAPIC_ICR_LOW], ICR_INIT
    mov dword ptr [LAPIC_ICR_LOW], ICR_START_UP | SHADOW >> 12
    mov edx, PM_TIMER
    in eax, dx
    mov ecx, eax
1:  cmp dword ptr [PROGRESS], 0
    jne 2f
    in eax, dx
    sub eax, ecx
    and eax, PM_TIMER_BITS
    cmp eax, TENTH_SECOND
    jb 1b
    inc dword ptr [FAILURES]
    mov eax, offset text_fail
    call print
    mov eax, ebx
    call print_number
    mov eax, offset text_does_not_start
    jmp print
2:  pause
    cmp dword ptr [PROGRESS], DONE
    jne 2b
    ret

# Sets the model-specific registers that firmware sets.
set_msrs:
    mov esi, [MSRS]
    mov edi, [MSR_COUNT]
1:  dec edi
    js 2f
    mov ecx, [esi]
    mov eax, [esi + 8]
    mov edx, [esi + 12]
    wrmsr
    add esi, 16
    jmp 1b
2:  ret

# Compares the PMU registers of this processor with their reset values.
test_pmu:
    mov esi, [REGISTERS]
    mov edi, [REGISTER_COUNT]
1:  dec edi
    js 2f
    mov ecx, [esi + ROW_INDEX]
    clc
    rdmsr                          # CF is set if it raises #GP
    setc bl
    call report
    add esi, ROW_SIZE
    jmp 1b
2:  ret

# Prints what became of row ESI: EDX:EAX was read, or BL is 1 and it raised #GP.
report:
    push edx
    push eax
    mov bh, 1                      # it fails
    cmp bl, [esi + ROW_FAULTS]
    jne 1f
    test bl, bl
    jnz 2f
    cmp eax, [esi + ROW_RESET]
    jne 1f
    cmp edx, [esi + ROW_RESET + 4]
    jne 1f
2:  mov bh, 0
1:  mov eax, offset text_pass
    test bh, bh
    jz 3f
    inc dword ptr [FAILURES]
    mov eax, offset text_fail
3:  call print
    mov eax, ebp
    call print_number
    call space
    mov eax, [esi + ROW_INDEX]
    call print_hex
    call space
    lea eax, [esi + ROW_NAME]
    call print
    call space
    pop eax
    pop edx
    call print_value
    test bh, bh
    jz newline
    mov eax, offset text_expected
    call print
    mov bl, [esi + ROW_FAULTS]
    mov eax, [esi + ROW_RESET]
    mov edx, [esi + ROW_RESET + 4]
    call print_value
newline:
    mov al, '\n'
    jmp print_character
space:
    mov al, ' '
    jmp print_character

# Prints EDX:EAX in hexadecimal, or #GP if BL is 1.
print_value:
    test bl, bl
    jz 1f
    mov eax, offset text_gp
    jmp print
1:  push eax
    mov eax, edx
    call print_hex
    pop eax
# Prints EAX in hexadecimal, with eight digits.
print_hex:
    push ecx
    mov ecx, 8
1:  rol eax, 4
    push eax
    and eax, 15
    call print_digit
    pop eax
    dec ecx
    jnz 1b
    pop ecx
    ret

# Prints the text at EAX, which ends with a NUL.
print:
    push ecx
    mov ecx, eax
1:  mov al, [ecx]
    inc ecx
    test al, al
    jz 2f
    call print_character
    jmp 1b
2:  pop ecx
    ret

# Prints EAX, up to FFh, in hexadecimal, with as many digits as it has.
print_number:
    cmp eax, 16
    jb print_digit
    push eax
    shr eax, 4
    call print_digit
    pop eax
    and eax, 15
# Prints the hexadecimal digit EAX.
print_digit:
    mov al, [digits + eax]
# Sends AL to the first serial port, which is as after its own reset. Preserves the rest of EAX.
print_character:
    push edx
    push eax
    mov edx, COM1_LINE_STATUS
1:  in al, dx
    test al, TRANSMITTER_EMPTY
    jz 1b
    pop eax
    mov edx, COM1
    out dx, al
    pop edx
    ret

# #GP, of the RDMSR of `test_pmu`: sets CF and goes on behind it. Changes ECX. Without IRET, which
# not every KVM has at CPL 0.
general_protection:
    add esp, 4                     # error code
    pop ecx                        # EIP
    add esp, 8                     # CS, EFLAGS
    add ecx, 2
    stc
    jmp ecx

# To the payload, in the state that the handover block describes. Memory below the ROM's own stays
# as it is.
hand_over:
    cmp dword ptr [MODE], REAL
    je hand_over_real
    lgdt [NEW_GDTR]
    lidt [NEW_IDTR]
    # LTR wants a TSS that is not busy, and makes it busy.
    mov ecx, [NEW_GDTR + 2]
    movzx eax, word ptr [NEW_TR]
    and byte ptr [ecx + eax + 5], ~TSS_BUSY
    ltr ax
    mov eax, [NEW_DATA]
    mov ds, eax; mov es, eax; mov fs, eax; mov gs, eax
    mov ss, [NEW_STACK + 4]
    mov eax, [NEW_CR4]
    mov cr4, eax
    cmp dword ptr [MODE], LONG
    je hand_over_long
    push 2                         # only the bit that is always set
    popfd
    mov eax, [NEW_CR0]
    mov cr0, eax
    mov eax, [NEW_GPR]; mov ecx, [NEW_GPR + 8]
    mov edx, [NEW_GPR + 16]; mov ebx, [NEW_GPR + 24]
    mov esp, [NEW_GPR + 32]; mov ebp, [NEW_GPR + 40]
    mov esi, [NEW_GPR + 48]; mov edi, [NEW_GPR + 56]
    jmp fword ptr [FAR32]

hand_over_long:
    mov dword ptr [FAR_LONG], offset long_mode
    mov eax, [NEW_CS]
    mov [FAR_LONG + 4], ax
    mov eax, [NEW_CR3]
    mov cr3, eax
    mov ecx, EFER
    mov eax, [NEW_EFER]
    xor edx, edx
    wrmsr
    push 2
    popfd
    # From here on nothing is written: that would mark pages as dirty.
    mov eax, [NEW_CR0]
    mov cr0, eax
    jmp fword ptr [FAR_LONG]
.code64
long_mode:
    mov rax, [NEW_GPR]; mov rcx, [NEW_GPR + 8]
    mov rdx, [NEW_GPR + 16]; mov rbx, [NEW_GPR + 24]
    mov rsp, [NEW_GPR + 32]; mov rbp, [NEW_GPR + 40]
    mov rsi, [NEW_GPR + 48]; mov rdi, [NEW_GPR + 56]
    mov r8, [NEW_GPR + 64]; mov r9, [NEW_GPR + 72]
    mov r10, [NEW_GPR + 80]; mov r11, [NEW_GPR + 88]
    mov r12, [NEW_GPR + 96]; mov r13, [NEW_GPR + 104]
    mov r14, [NEW_GPR + 112]; mov r15, [NEW_GPR + 120]
    jmp qword ptr [NEW_RIP]

.code32
hand_over_real:
    push 2
    popfd
    ljmp CODE16, offset protected16 - rom
.code16
protected16:
    # Limits of 64 KiB, which stay in real mode.
    mov ax, DATA16
    mov ds, ax; mov es, ax; mov fs, ax; mov gs, ax; mov ss, ax
    mov eax, cs:[NEW_CR0 - SHADOW]
    mov cr0, eax
    ljmp SHADOW >> 4, offset real - rom
real:
    data32 lgdt cs:[NEW_GDTR - SHADOW]
    data32 lidt cs:[NEW_IDTR - SHADOW]
    mov ax, cs:[NEW_DATA - SHADOW]
    mov ds, ax; mov es, ax; mov fs, ax; mov gs, ax
    lss esp, cs:[NEW_STACK - SHADOW]
    mov eax, cs:[NEW_GPR - SHADOW]; mov ecx, cs:[NEW_GPR + 8 - SHADOW]
    mov edx, cs:[NEW_GPR + 16 - SHADOW]; mov ebx, cs:[NEW_GPR + 24 - SHADOW]
    mov ebp, cs:[NEW_GPR + 40 - SHADOW]; mov esi, cs:[NEW_GPR + 48 - SHADOW]
    mov edi, cs:[NEW_GPR + 56 - SHADOW]
    ljmp cs:[FAR16 - SHADOW]

# Copies the ROM to RAM and goes on there. CS still has the base of the reset, FFFF_0000h.
shadow:
    mov ax, SHADOW >> 4
    mov es, ax
    mov si, ROM_OFFSET
    xor di, di
    mov cx, ROM_SIZE / 4
    cld
    rep movs dword ptr es:[di], dword ptr cs:[si]
    ljmp SHADOW >> 4, 0

text_title:          .asciz "vpmu firmware: "
text_pass:           .asciz "PASS cpu "
text_fail:           .asciz "FAIL cpu "
text_expected:       .asciz ", expected "
text_gp:             .asciz "#GP"
text_does_not_start: .asciz " does not start\n"
text_passed:         .asciz "POST: PASS\n"
text_failed:         .asciz "POST: FAIL\n"
digits:              .ascii "0123456789ABCDEF"

.balign 8
gdt:
    .quad 0
    .quad 0x00CF9B000000FFFF       # CODE32: all 4 GiB
    .quad 0x00CF93000000FFFF       # DATA32
    .quad 0x00009B000000FFFF | SHADOW << 16 # CODE16: base SHADOW, 64 KiB
    .quad 0x000093000000FFFF       # DATA16: base 0, 64 KiB
gdt_pointer:
    .word . - gdt - 1
    .long gdt
# Nothing but vector 13.
idt:
    .fill 13, 8, 0
    .word general_protection - rom + (SHADOW & 0xFFFF), CODE32, 0x8E00, SHADOW >> 16
idt_pointer:
    .word . - idt - 1
    .long idt

.org ROM_SIZE - 16, 0xFF
reset_vector:
    jmp shadow
.org ROM_SIZE, 0xFF
