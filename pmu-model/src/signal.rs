//! The signal vocabulary: what an engine can tell the PMU.
//!
//! A *signal* is a micro-architectural fact; an *event* is what one personality lets a guest
//! select. Engines only fire signals; the event tables say which select counts which signals.
//! Signals that specialise another (a near return is a branch) are fired beside it, so an event
//! never has to add up special cases to get the whole.

/// One row a signal: doc, variant, name, and whether the CPU core alone can fire it
/// (`architectural`) or a micro-architecture model has to (`modelled`).
macro_rules! signals {
    ($($(#[$doc:meta])* $variant:ident: $name:literal, $kind:ident;)*) => {
        /// A micro-architectural fact that can be counted. Closed: every event of every
        /// personality is a sum of these.
        ///
        /// Each variant's text says what one occurrence is. Values are dense from 0, so that
        /// tables can be indexed by them; they are not stable between versions.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize))]
        #[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
        #[repr(u8)]
        pub enum Signal {
            $($(#[$doc])* $variant,)*
        }

        impl Signal {
            /// Every signal, in the order of the enumeration.
            pub const ALL: &'static [Signal] = &[$(Signal::$variant),*];

            /// The signal's name in lower case, words joined by underscores.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Signal::$variant => $name,)*
                }
            }

            /// Whether the CPU core fires this signal in this version. The others wait for the
            /// micro-architecture model; an event that needs one of them is `pending`.
            pub const fn is_architectural(self) -> bool {
                match self {
                    $(Signal::$variant => fired_by::$kind,)*
                }
            }
        }
    };
}

/// Who fires a signal, in the words of the table.
#[allow(non_upper_case_globals)]
mod fired_by {
    pub(super) const architectural: bool = true;
    pub(super) const modelled: bool = false;
}

signals! {
    /// One instruction retired: an architectural instruction completed and its results are
    /// visible. A REP string instruction is one, however often it iterates; exceptions and
    /// interrupts are not included (they fire signals of their own).
    InsnRetired: "insn_retired", architectural;
    /// One CLFLUSH instruction retired. Fired beside [`Signal::InsnRetired`].
    InsnRetiredClflush: "insn_retired_clflush", architectural;
    /// One CPUID instruction retired. Fired beside [`Signal::InsnRetired`].
    InsnRetiredCpuid: "insn_retired_cpuid", architectural;
    /// One x87 instruction retired. Fired beside [`Signal::InsnRetired`].
    InsnRetiredX87: "insn_retired_x87", architectural;
    /// One MMX or 3DNow! instruction retired. Fired beside [`Signal::InsnRetired`].
    InsnRetiredMmx: "insn_retired_mmx", architectural;
    /// One packed SSE, SSE2 or SSE3 instruction retired. Fired beside [`Signal::InsnRetired`].
    InsnRetiredSsePacked: "insn_retired_sse_packed", architectural;
    /// One scalar SSE, SSE2 or SSE3 instruction retired. Fired beside [`Signal::InsnRetired`].
    InsnRetiredSseScalar: "insn_retired_sse_scalar", architectural;
    /// One exception (fault or trap) delivered. INT n is not one: it is a far transfer
    /// ([`Signal::BranchRetiredFar`]).
    ExceptionTaken: "exception_taken", architectural;
    /// One hardware interrupt taken, NMI included. INT n is not one.
    InterruptTaken: "interrupt_taken", architectural;
    /// One branch instruction retired, of any kind: conditional (taken or not), jump, call,
    /// return, and every far transfer. Exceptions and interrupts are not included.
    BranchRetired: "branch_retired", architectural;
    /// One branch instruction retired that changed the flow: a taken conditional, or any
    /// unconditional near or far transfer. Fired beside [`Signal::BranchRetired`].
    BranchTaken: "branch_taken", architectural;
    /// One near return retired. Fired beside [`Signal::BranchRetired`].
    BranchRetiredRet: "branch_retired_ret", architectural;
    /// One far transfer instruction retired: far call, far jump, far return, IRET, SYSCALL,
    /// SYSRET, SYSENTER, SYSEXIT, INT n. Fired beside [`Signal::BranchRetired`].
    BranchRetiredFar: "branch_retired_far", architectural;
    /// One load of ES.
    SegLoadEs: "seg_load_es", architectural;
    /// One load of CS.
    SegLoadCs: "seg_load_cs", architectural;
    /// One load of SS.
    SegLoadSs: "seg_load_ss", architectural;
    /// One load of DS.
    SegLoadDs: "seg_load_ds", architectural;
    /// One load of FS.
    SegLoadFs: "seg_load_fs", architectural;
    /// One load of GS.
    SegLoadGs: "seg_load_gs", architectural;
    /// One data access that crosses the boundary of the personality (eight bytes on K8).
    Misaligned: "misaligned", architectural;
    /// One locked instruction executed: a LOCK prefix, or XCHG with memory.
    LockedOp: "locked_op", architectural;
    /// One match of breakpoint register DR0 for the type set in DR7, whether or not the
    /// breakpoint is enabled.
    DebugMatch0: "debug_match0", architectural;
    /// One match of breakpoint register DR1, as for DR0.
    DebugMatch1: "debug_match1", architectural;
    /// One match of breakpoint register DR2, as for DR0.
    DebugMatch2: "debug_match2", architectural;
    /// One match of breakpoint register DR3, as for DR0.
    DebugMatch3: "debug_match3", architectural;
    /// One processor clock in which the processor was not halted.
    CyclesUnhalted: "cycles_unhalted", architectural;
    /// One unhalted clock with EFLAGS.IF = 0.
    CyclesIntMasked: "cycles_int_masked", architectural;
    /// One unhalted clock with EFLAGS.IF = 0 and an interrupt pending. Fired beside
    /// [`Signal::CyclesIntMasked`].
    CyclesIntMaskedPending: "cycles_int_masked_pending", architectural;
    /// One floating-point operation that returns its flags to the integer side: FCOMI, FCOMIP,
    /// FUCOMI, FUCOMIP, COMISS, COMISD, UCOMISS, UCOMISD.
    FpuOpFastFlag: "fpu_op_fast_flag", architectural;
    /// One PREFETCH, PREFETCHT0, PREFETCHT1 or PREFETCHT2 instruction sent on by the decoder.
    SoftPrefetchLoad: "soft_prefetch_load", architectural;
    /// One PREFETCHW instruction sent on by the decoder.
    SoftPrefetchStore: "soft_prefetch_store", architectural;
    /// One PREFETCHNTA instruction sent on by the decoder.
    SoftPrefetchNta: "soft_prefetch_nta", architectural;
    /// One operation without a memory operand sent to the FPU's add pipe.
    FpuOpAdd: "fpu_op_add", modelled;
    /// One operation without a memory operand sent to the FPU's multiply pipe.
    FpuOpMul: "fpu_op_mul", modelled;
    /// One operation without a memory operand sent to the FPU's store pipe.
    FpuOpStore: "fpu_op_store", modelled;
    /// One operation with a load sent to the FPU's add pipe.
    FpuOpAddLoad: "fpu_op_add_load", modelled;
    /// One operation with a load sent to the FPU's multiply pipe.
    FpuOpMulLoad: "fpu_op_mul_load", modelled;
    /// One operation with a load sent to the FPU's store pipe.
    FpuOpStoreLoad: "fpu_op_store_load", modelled;
    /// One x87 reclass microfault.
    FpAssistX87Reclass: "fp_assist_x87_reclass", modelled;
    /// One SSE retype microfault.
    FpAssistSseRetype: "fp_assist_sse_retype", modelled;
    /// One SSE reclass microfault.
    FpAssistSseReclass: "fp_assist_sse_reclass", modelled;
    /// One SSE or x87 microtrap.
    FpAssistMicrotrap: "fp_assist_microtrap", modelled;
    /// One micro-operation retired, from any activity.
    UopRetired: "uop_retired", modelled;
    /// One fast-path double instruction retired with its low half in slot 0.
    UopFastpathDouble0: "uop_fastpath_double0", modelled;
    /// One fast-path double instruction retired with its low half in slot 1.
    UopFastpathDouble1: "uop_fastpath_double1", modelled;
    /// One fast-path double instruction retired with its low half in slot 2.
    UopFastpathDouble2: "uop_fastpath_double2", modelled;
    /// One near branch retired whose direction or target was predicted wrongly.
    BranchMispredicted: "branch_mispredicted", modelled;
    /// One taken near branch retired that was predicted wrongly.
    BranchMispredictedTaken: "branch_mispredicted_taken", modelled;
    /// One near return retired whose target was predicted wrongly.
    BranchMispredictedRet: "branch_mispredicted_ret", modelled;
    /// One indirect branch retired whose target was predicted wrongly.
    BranchMispredictedIndirect: "branch_mispredicted_indirect", modelled;
    /// One near return that took its target from the return stack, rightly or not.
    RasPredicted: "ras_predicted", modelled;
    /// One near call that pushed the return stack past its depth.
    RasOverflow: "ras_overflow", modelled;
    /// One pipeline restart because a store hit instructions already fetched.
    FlushSmc: "flush_smc", modelled;
    /// One pipeline restart because an invalidating probe hit a load that had run early.
    FlushProbeLoad: "flush_probe_load", modelled;
    /// One pipeline restart because an invalidating probe hit the running instruction stream.
    FlushProbeIfetch: "flush_probe_ifetch", modelled;
    /// One pipeline restart by a microcode assist or a write to the active code.
    FlushResync: "flush_resync", modelled;
    /// One clock that a locked operation spent in its speculative phase.
    LockedSpeculativeCycles: "locked_speculative_cycles", modelled;
    /// One clock that a locked operation spent in its non-speculative phase, misses included.
    LockedNonSpeculativeCycles: "locked_non_speculative_cycles", modelled;
    /// One request to uncacheable (UC) memory.
    UncachedAccess: "uncached_access", modelled;
    /// One flush of a write-combining buffer filled by stores to WC memory.
    WcFlush: "wc_flush", modelled;
    /// One flush of a write-combining buffer filled by streaming stores.
    WcFlushStreaming: "wc_flush_streaming", modelled;
    /// One data-cache access of up to eight bytes, by a load or a store.
    L1dAccess: "l1d_access", modelled;
    /// One data-cache miss: the first for its line, and every streaming store.
    L1dMiss: "l1d_miss", modelled;
    /// One data-cache miss by a locked instruction. Fired beside [`Signal::L1dMiss`].
    L1dMissLocked: "l1d_miss_locked", modelled;
    /// One line refilled into the data cache from the L2 in state Shared.
    L1dRefillL2Shared: "l1d_refill_l2_shared", modelled;
    /// One line refilled into the data cache from the L2 in state Exclusive.
    L1dRefillL2Exclusive: "l1d_refill_l2_exclusive", modelled;
    /// One line refilled into the data cache from the L2 in state Owned.
    L1dRefillL2Owned: "l1d_refill_l2_owned", modelled;
    /// One line refilled into the data cache from the L2 in state Modified.
    L1dRefillL2Modified: "l1d_refill_l2_modified", modelled;
    /// One line refilled into the data cache from memory or another cache in state Invalid.
    L1dRefillSystemInvalid: "l1d_refill_system_invalid", modelled;
    /// One line refilled into the data cache from memory or another cache in state Shared.
    L1dRefillSystemShared: "l1d_refill_system_shared", modelled;
    /// One line refilled into the data cache from memory or another cache in state Exclusive.
    L1dRefillSystemExclusive: "l1d_refill_system_exclusive", modelled;
    /// One line refilled into the data cache from memory or another cache in state Owned.
    L1dRefillSystemOwned: "l1d_refill_system_owned", modelled;
    /// One line refilled into the data cache from memory or another cache in state Modified.
    L1dRefillSystemModified: "l1d_refill_system_modified", modelled;
    /// One data-cache line displaced by a refill in state Invalid (a probe had taken it).
    L1dEvictInvalid: "l1d_evict_invalid", modelled;
    /// One data-cache line displaced by a refill in state Shared.
    L1dEvictShared: "l1d_evict_shared", modelled;
    /// One data-cache line displaced by a refill in state Exclusive.
    L1dEvictExclusive: "l1d_evict_exclusive", modelled;
    /// One data-cache line displaced by a refill in state Owned.
    L1dEvictOwned: "l1d_evict_owned", modelled;
    /// One data-cache line displaced by a refill in state Modified.
    L1dEvictModified: "l1d_evict_modified", modelled;
    /// One data access that missed the first-level TLB and hit the second.
    DtlbMissL1: "dtlb_miss_l1", modelled;
    /// One data access that missed every TLB level.
    DtlbMissLast: "dtlb_miss_last", modelled;
    /// One instruction fetch that missed the first-level TLB and hit the second.
    ItlbMissL1: "itlb_miss_l1", modelled;
    /// One instruction fetch that missed every TLB level.
    ItlbMissLast: "itlb_miss_last", modelled;
    /// One read of the instruction cache, of the personality's fetch width (16 aligned bytes on
    /// K8).
    L1iFetch: "l1i_fetch", modelled;
    /// One instruction fetch that missed the instruction cache.
    L1iMiss: "l1i_miss", modelled;
    /// One line refilled into the instruction cache from the L2.
    L1iRefillL2: "l1i_refill_l2", modelled;
    /// One line refilled into the instruction cache from memory or another cache.
    L1iRefillSystem: "l1i_refill_system", modelled;
    /// One read request to the L2 for an instruction-cache fill, retries included.
    L2RequestIfetch: "l2_request_ifetch", modelled;
    /// One read request to the L2 for a data-cache fill, retries included.
    L2RequestData: "l2_request_data", modelled;
    /// One read request to the L2 for a page-table walk.
    L2RequestTlb: "l2_request_tlb", modelled;
    /// One tag snoop request to the L2.
    L2RequestSnoop: "l2_request_snoop", modelled;
    /// One request to the L2 that was cancelled.
    L2RequestCancelled: "l2_request_cancelled", modelled;
    /// One L2 miss of an instruction-cache fill.
    L2MissIfetch: "l2_miss_ifetch", modelled;
    /// One L2 miss of a data-cache fill.
    L2MissData: "l2_miss_data", modelled;
    /// One L2 miss of a page-table walk.
    L2MissTlb: "l2_miss_tlb", modelled;
    /// One line written into the L2: an L1 victim, a page-table walk or a data prefetch.
    L2Fill: "l2_fill", modelled;
    /// One dirty line written back from the L2 to the system.
    L2EvictModified: "l2_evict_modified", modelled;
    /// One prefetch attempted by the hardware data prefetcher.
    HwPrefetchAttempt: "hw_prefetch_attempt", modelled;
    /// One hardware prefetch cancelled because the line was already there. Fired beside
    /// [`Signal::HwPrefetchAttempt`].
    HwPrefetchCancelled: "hw_prefetch_cancelled", modelled;
    /// One line-sized response of the system to a refill, in state Exclusive.
    SystemReadExclusive: "system_read_exclusive", modelled;
    /// One line-sized response of the system to a refill, in state Modified.
    SystemReadModified: "system_read_modified", modelled;
    /// One line-sized response of the system to a refill, in state Shared.
    SystemReadShared: "system_read_shared", modelled;
    /// One eight-byte transfer sent to the system.
    SystemWriteQword: "system_write_qword", modelled;
    /// One clock in which the FPU retired nothing.
    StallNoFpuRetire: "stall_no_fpu_retire", modelled;
    /// One access cancelled late inside the core.
    StallLateCancel: "stall_late_cancel", modelled;
    /// One access cancelled early inside the core.
    StallEarlyCancel: "stall_early_cancel", modelled;
    /// One clock in which the second load/store buffer was full.
    StallLs2Full: "stall_ls2_full", modelled;
    /// One clock in which the instruction fetcher was stalled.
    StallIfetch: "stall_ifetch", modelled;
    /// One clock in which the decoder had nothing to dispatch.
    StallDecoderEmpty: "stall_decoder_empty", modelled;
    /// One clock in which dispatch was held for any of the causes below.
    StallDispatchAny: "stall_dispatch_any", modelled;
    /// One dispatch-stall clock waiting for a mispredicted branch to retire.
    StallBranchAbort: "stall_branch_abort", modelled;
    /// One dispatch-stall clock for a serializing operation.
    StallSerialize: "stall_serialize", modelled;
    /// One dispatch-stall clock for a segment load behind another.
    StallSegmentLoad: "stall_segment_load", modelled;
    /// One dispatch-stall clock with the reorder buffer full.
    StallRobFull: "stall_rob_full", modelled;
    /// One dispatch-stall clock with an integer reservation station full.
    StallRsFull: "stall_rs_full", modelled;
    /// One dispatch-stall clock with the floating-point scheduler full.
    StallFpuFull: "stall_fpu_full", modelled;
    /// One dispatch-stall clock with the load/store unit full.
    StallLsFull: "stall_ls_full", modelled;
    /// One dispatch-stall clock waiting for every outstanding system request.
    StallAllQuiet: "stall_all_quiet", modelled;
    /// One dispatch-stall clock waiting for a far transfer or a resync to retire.
    StallFarOrResync: "stall_far_or_resync", modelled;
    /// One DRAM access that hit the open page.
    DramPageHit: "dram_page_hit", modelled;
    /// One DRAM access that found no page open.
    DramPageMiss: "dram_page_miss", modelled;
    /// One DRAM access that found another page open.
    DramPageConflict: "dram_page_conflict", modelled;
    /// One time that a new DRAM page was wanted with the open-page table full.
    DramPageTableOverflow: "dram_page_table_overflow", modelled;
    /// One turnaround of the DRAM bus between chip selects.
    DramTurnaroundChipSelect: "dram_turnaround_chip_select", modelled;
    /// One turnaround of the DRAM bus from read to write.
    DramTurnaroundReadToWrite: "dram_turnaround_read_to_write", modelled;
    /// One turnaround of the DRAM bus from write to read.
    DramTurnaroundWriteToRead: "dram_turnaround_write_to_read", modelled;
    /// One 32-byte sized write at the northbridge.
    SizedBlockWrite32: "sized_block_write32", modelled;
    /// One 64-byte sized write at the northbridge.
    SizedBlockWrite64: "sized_block_write64", modelled;
    /// One 32-byte sized read at the northbridge.
    SizedBlockRead32: "sized_block_read32", modelled;
    /// One 64-byte sized read at the northbridge.
    SizedBlockRead64: "sized_block_read64", modelled;
    /// One request of a local processor to local memory.
    NbRequestCpuToMem: "nb_request_cpu_to_mem", modelled;
    /// One request of a local processor to local I/O.
    NbRequestCpuToIo: "nb_request_cpu_to_io", modelled;
    /// One request of local I/O to local memory.
    NbRequestIoToMem: "nb_request_io_to_mem", modelled;
    /// One request of local I/O to local I/O.
    NbRequestIoToIo: "nb_request_io_to_io", modelled;
    /// One victim block (write-back) command.
    CacheBlockVictim: "cache_block_victim", modelled;
    /// One read block command (data-cache load refill).
    CacheBlockRead: "cache_block_read", modelled;
    /// One read block shared command (instruction-cache refill).
    CacheBlockReadShared: "cache_block_read_shared", modelled;
    /// One read block modified command (data-cache store refill).
    CacheBlockReadModified: "cache_block_read_modified", modelled;
    /// One change-to-dirty command (first store to a clean line).
    CacheBlockChangeToDirty: "cache_block_change_to_dirty", modelled;
    /// One non-posted sized write of bytes (1-32 bytes).
    SizedNonPostedWriteByte: "sized_non_posted_write_byte", modelled;
    /// One non-posted sized write of doublewords (1-16).
    SizedNonPostedWriteDword: "sized_non_posted_write_dword", modelled;
    /// One posted sized write of bytes (1-32 bytes).
    SizedPostedWriteByte: "sized_posted_write_byte", modelled;
    /// One posted sized write of doublewords (1-16).
    SizedPostedWriteDword: "sized_posted_write_dword", modelled;
    /// One sized read of bytes (4 bytes).
    SizedReadByte: "sized_read_byte", modelled;
    /// One sized read of doublewords (1-16).
    SizedReadDword: "sized_read_dword", modelled;
    /// One sized read-modify-write.
    SizedReadModifyWrite: "sized_read_modify_write", modelled;
    /// One probe that missed.
    ProbeMiss: "probe_miss", modelled;
    /// One probe that hit a clean line.
    ProbeHitClean: "probe_hit_clean", modelled;
    /// One probe that hit a dirty line, without memory cancel (a sized write or change-to-dirty
    /// asked).
    ProbeHitDirtyKeep: "probe_hit_dirty_keep", modelled;
    /// One probe that hit a dirty line, with memory cancel (a DMA read or a refill asked).
    ProbeHitDirtyCancel: "probe_hit_dirty_cancel", modelled;
    /// One upstream read for display refresh.
    IoDmaDisplayRead: "io_dma_display_read", modelled;
    /// One upstream read that is not for display refresh.
    IoDmaRead: "io_dma_read", modelled;
    /// One upstream write.
    IoDmaWrite: "io_dma_write", modelled;
}

impl Signal {
    /// How many signals there are.
    pub const COUNT: usize = Signal::ALL.len();

    /// Position in [`Signal::ALL`] and in every table indexed by signal.
    pub const fn index(self) -> usize {
        self as usize
    }
}
