#ifndef MUSTER_COMMON_KERNELS_DEVICE_SIMT_FIBER_H_
#define MUSTER_COMMON_KERNELS_DEVICE_SIMT_FIBER_H_

#include <cstddef>
#include <memory>

namespace muster {

// A stack of its own for code that is left in the middle and gone on with later, on one thread: an
// emulated GPU thread between two barriers. Entering one costs some ten instructions.
class Fiber {
 public:
  // `body(argument)` runs from the first Enter on, and must not return.
  Fiber(void (*body)(void*), void* argument);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs the body from where it left off until it calls Leave. From outside of all fibers.
  void Enter();
  // Back to Enter. From within the body of this fiber.
  void Leave();

 private:
  struct Context;
  const std::unique_ptr<Context> context_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_SIMT_FIBER_H_
