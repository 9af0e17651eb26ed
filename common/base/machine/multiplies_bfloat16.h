#ifndef MUSTER_COMMON_BASE_MACHINE_MULTIPLIES_BFLOAT16_H_
#define MUSTER_COMMON_BASE_MACHINE_MULTIPLIES_BFLOAT16_H_

namespace muster {

// Returns true if this machine multiplies bf16 faster than f32. That excludes Intel's cores from
// Sapphire Rapids on if the matrix unit (AMX) is hidden: they run VDPBF16PS at a quarter of the
// rate of the f32 instruction, which is half its products per second. The answer is a property of
// the machine, not measured, so that it is the same in every run. Thread-safe.
bool MultipliesBFloat16();

// Makes the whole process compute as if the machine did not multiply bf16 faster.
void HideBFloat16ProductsForTesting();

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_MACHINE_MULTIPLIES_BFLOAT16_H_
