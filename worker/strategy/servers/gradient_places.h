#ifndef MUSTER_WORKER_STRATEGY_SERVERS_GRADIENT_PLACES_H_
#define MUSTER_WORKER_STRATEGY_SERVERS_GRADIENT_PLACES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "common/base/payload.h"
#include "common/partition/dense_layout.h"
#include "common/partition/tensor_spec.h"
#include "common/partition/unit_places.h"
#include "common/transport/shared_memory/registered_memory.h"
#include "worker/nn/layer.h"
#include "worker/strategy/servers/dense_runs.h"

namespace muster {

// The memory of a worker's gradients where only units in flight have memory (UnitPlaces), and the
// count of its readers. Used by one thread, except that payloads may be released on any thread and
// may outlive this object.
class GradientPlaces {
 public:
  // Makes zeros, in registered memory if there is some. `layout` is of what is trained
  // (DenseLayout::Trained): other tensors have empty spans.
  GradientPlaces(const DenseLayout& layout, absl::Span<const TensorSpec> tensors,
                 std::shared_ptr<RegisteredMemory> registered);

  // Returns the gradients by tensor index, tied tensors included. Addresses never change.
  GradientSpans gradients() const { return gradients_; }

  // Returns whether the units' gradients lie in the same memory.
  bool SharePlace(int unit, int other) const { return PlaceOf(unit) == PlaceOf(other); }
  // Returns the units whose tensors the unit's tensors are tied to.
  absl::Span<const int> tied_units(int unit) const { return places_.tied_units(unit); }

  // Returns a run's gradients.
  absl::Span<float> values(const DenseRun& run) {
    return {AddressOf(run.begin), static_cast<size_t>(run.elements())};
  }
  // Returns a run's gradients as a payload. The unit's place is read until the payload is released.
  Payload Read(int unit, const DenseRun& run);
  // Blocks until nobody reads the unit's place.
  void AwaitReaders(int unit);

 private:
  struct State;

  // Returns the number of the unit's place.
  size_t PlaceOf(int unit) const;
  // Returns where an element of the flat space has its gradient.
  float* AddressOf(uint64_t element) const;

  const UnitPlaces places_;
  // The memory and its readers. Payloads share it.
  const std::shared_ptr<State> state_;
  std::vector<absl::Span<float>> gradients_;
  struct Part {
    // The first element of the part in the flat space.
    uint64_t begin = 0;
    float* values = nullptr;
  };
  // The parts, in order of the flat space.
  std::vector<Part> parts_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_SERVERS_GRADIENT_PLACES_H_
