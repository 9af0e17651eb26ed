#ifndef MUSTER_COMMON_BASE_MACHINE_MULTIPLIES_BFLOAT16_H_
#define MUSTER_COMMON_BASE_MACHINE_MULTIPLIES_BFLOAT16_H_

namespace muster {

// Whether this machine has instructions for products of bf16 that are faster than those of f32. So
// not Intel's cores from Sapphire Rapids on where the matrix unit (AMX) is hidden from us: they run
// VDPBF16PS at a quarter of the rate of the f32 instruction, half its products per second. A
// property of the machine, not measured, so that it is the same in every run. Thread-safe.
bool MultipliesBFloat16();

// Makes the whole process compute as on a machine without such instructions.
void HideBFloat16ProductsForTesting();

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_MACHINE_MULTIPLIES_BFLOAT16_H_
