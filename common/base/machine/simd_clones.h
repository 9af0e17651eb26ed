#ifndef MUSTER_COMMON_BASE_MACHINE_SIMD_CLONES_H_
#define MUSTER_COMMON_BASE_MACHINE_SIMD_CLONES_H_

// MUSTER_SIMD_CLONES before a function's definition compiles it once per instruction set; the
// dynamic loader picks the best that the machine has. What it calls must be inlined
// (MUSTER_ALWAYS_INLINE), or stays in baseline code. Targets that use it compile with
// -ffp-contract=off, so that every clone gives the same bits.
//
// Clones hang on the loader's indirect functions, whose resolvers run before a sanitizer's runtime
// is up: builds with one keep the baseline only. UBSan has no macro in GCC, and does not mind.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define MUSTER_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MUSTER_SANITIZED 1
#endif

#if defined(__x86_64__) && defined(__linux__) && !defined(MUSTER_SANITIZED)
#define MUSTER_SIMD_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define MUSTER_SIMD_CLONES
#endif

// Before a loop: iterations are independent even where arrays are the same one, each element being
// read before it is written. Without it, vector code checks for overlap and leaves work in place to
// scalar code.
#if defined(__clang__)
#define MUSTER_INDEPENDENT_ITERATIONS _Pragma("clang loop vectorize(assume_safety)")
#else
#define MUSTER_INDEPENDENT_ITERATIONS _Pragma("GCC ivdep")
#endif

#define MUSTER_ALWAYS_INLINE inline __attribute__((always_inline))

#endif  // MUSTER_COMMON_BASE_MACHINE_SIMD_CLONES_H_
