#include "worker/strategy/servers/row_arrays.h"

#include <utility>

namespace muster {

std::shared_ptr<const std::vector<float>> RowArrays::Hold(std::vector<float>& values) {
  auto held = std::make_unique<std::vector<float>>();
  {
    absl::MutexLock lock(&state_->mutex);
    if (!state_->free.empty()) {
      *held = std::move(state_->free.back());
      state_->free.pop_back();
    }
  }
  held->swap(values);
  return std::shared_ptr<const std::vector<float>>(held.release(),
                                                   [state = state_](std::vector<float>* released) {
                                                     {
                                                       absl::MutexLock lock(&state->mutex);
                                                       state->free.push_back(std::move(*released));
                                                     }
                                                     delete released;
                                                   });
}

}  // namespace muster
