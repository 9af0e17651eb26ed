#include "worker/runtime/program/program_output.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace muster {

ProgramOutput::ProgramOutput(Options options, std::function<void(absl::string_view)> pass_on)
    : options_(options),
      pass_on_(std::move(pass_on)),
      room_(static_cast<double>(options.burst_bytes)) {}

void ProgramOutput::Add(absl::string_view text, absl::Duration now) {
  absl::StrAppend(&tail_, text.substr(text.size() - std::min(text.size(), options_.tail_bytes)));
  if (tail_.size() > options_.tail_bytes) tail_.erase(0, tail_.size() - options_.tail_bytes);
  if (filled_at_ > -absl::InfiniteDuration()) {
    room_ += absl::ToDoubleSeconds(now - filled_at_) * options_.bytes_per_second;
  }
  filled_at_ = now;
  room_ = std::min(room_, static_cast<double>(options_.burst_bytes));
  if (static_cast<double>(text.size()) > room_) {
    dropped_ += text.size();
    return;
  }
  room_ -= static_cast<double>(text.size());
  TellDropped();
  pass_on_(text);
}

void ProgramOutput::Finish() { TellDropped(); }

void ProgramOutput::TellDropped() {
  const uint64_t dropped = std::exchange(dropped_, 0);
  if (dropped == 0) return;
  pass_on_(absl::StrCat("\n[", dropped, " bytes of output were dropped here: the program prints ",
                        "faster than ", options_.bytes_per_second >> 10, " KiB a second]\n"));
}

std::string ProgramOutput::Tail() const {
  const size_t line = tail_.find('\n');
  // Less than the limit is whole.
  const bool cut = tail_.size() == options_.tail_bytes;
  if (!cut || line == std::string::npos || line + 1 >= tail_.size()) return tail_;
  return tail_.substr(line + 1);
}

}  // namespace muster
