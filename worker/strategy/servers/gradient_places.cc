#include "worker/strategy/servers/gradient_places.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/partition/model_units.h"
#include "common/partition/shard_layout.h"
#include "worker/strategy/arena.h"

namespace muster {

struct GradientPlaces::State {
  State(size_t bytes, std::shared_ptr<RegisteredMemory> registered)
      : memory(bytes, std::move(registered)) {}

  const ArenaMemory memory;
  absl::Mutex mutex;
  // The number of readers, by place.
  std::vector<int> readers ABSL_GUARDED_BY(mutex);
};

GradientPlaces::GradientPlaces(const DenseLayout& layout, absl::Span<const TensorSpec> tensors,
                               std::shared_ptr<RegisteredMemory> registered)
    : places_(ShardLayout(layout, 1), tensors, UnitPlaces::Holding::kInFlight,
              UnitPlaces::Content::kGradients),
      state_(std::make_shared<State>(places_.bytes(), std::move(registered))) {
  for (size_t i = 0; i < layout.parts().size(); ++i) {
    const DenseLayout::Part& part = layout.parts()[i];
    std::byte* const place = state_->memory.data() + places_.part_offset(static_cast<int>(i));
    parts_.push_back({part.begin, reinterpret_cast<float*>(place)});
  }
  {
    absl::MutexLock lock(&state_->mutex);
    state_->readers.resize(2 + UnitCount(tensors));
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    const uint64_t begin = layout.tensor_offset(static_cast<int>(i));
    const uint64_t elements = begin < layout.elements() ? tensors[i].elements() : 0;
    float* const values = elements == 0 ? nullptr : AddressOf(begin);
    gradients_.emplace_back(values, elements);
  }
}

float* GradientPlaces::AddressOf(uint64_t element) const {
  const auto after =
      std::upper_bound(parts_.begin(), parts_.end(), element,
                       [](uint64_t wanted, const Part& part) { return wanted < part.begin; });
  const Part& part = *std::prev(after);
  return part.values + (element - part.begin);
}

size_t GradientPlaces::PlaceOf(int unit) const {
  const int shared = places_.shared_place(unit);
  return shared >= 0 ? shared : 2 + unit;
}

Payload GradientPlaces::Read(int unit, const DenseRun& run) {
  const size_t place = PlaceOf(unit);
  {
    absl::MutexLock lock(&state_->mutex);
    ++state_->readers[place];
  }
  const std::shared_ptr<const void> reader(state_->memory.data(),
                                           [state = state_, place](const void*) {
                                             absl::MutexLock lock(&state->mutex);
                                             --state->readers[place];
                                           });
  const absl::Span<const float> read = values(run);
  const Payload::Span span(reinterpret_cast<const std::byte*>(read.data()),
                           read.size() * sizeof(float));
  return Payload({span}, reader);
}

void GradientPlaces::AwaitReaders(int unit) {
  const size_t place = PlaceOf(unit);
  State& state = *state_;
  const auto unread = [&state, place]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex) {
    return state.readers[place] == 0;
  };
  absl::MutexLock lock(&state.mutex);
  state.mutex.Await(absl::Condition(&unread));
}

}  // namespace muster
