"""Options of the compiler that several packages use."""

# For loops of arithmetic. Not the default -O2: GCC 12 turns loops of unknown length into vector code at -O3 only. Without
# contraction into fused multiply-add, every instruction set gives the same bits.
KERNEL_COPTS = [
    "-O3",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
]
