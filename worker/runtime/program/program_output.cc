#include "worker/runtime/program/program_output.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace muster {
namespace {

// Returns what a terminal shows of a line, given without its line break: what came after the last
// carriage return that text follows.
absl::string_view LastState(absl::string_view line) {
  while (absl::ConsumeSuffix(&line, "\r")) {
  }
  const size_t last = line.rfind('\r');
  return last == absl::string_view::npos ? line : line.substr(last + 1);
}

// Returns the last state of each line.
std::string LastStates(absl::string_view lines) {
  std::vector<absl::string_view> states = absl::StrSplit(lines, '\n');
  for (absl::string_view& line : states) line = LastState(line);
  return absl::StrJoin(states, "\n");
}

}  // namespace

ProgramOutput::ProgramOutput(Options options, std::function<void(absl::string_view)> pass_on)
    : options_(options),
      pass_on_(std::move(pass_on)),
      room_(static_cast<double>(options.burst_bytes)) {}

void ProgramOutput::Add(absl::string_view text, absl::Duration now) {
  if (filled_at_ > -absl::InfiniteDuration()) {
    room_ += absl::ToDoubleSeconds(now - filled_at_) * options_.bytes_per_second;
  }
  filled_at_ = now;
  room_ = std::min(room_, static_cast<double>(options_.burst_bytes));
  const size_t end = text.rfind('\n');
  if (end != absl::string_view::npos) {
    absl::StrAppend(&line_, text.substr(0, end + 1));
    TakeLines(std::exchange(line_, ""));
    text.remove_prefix(end + 1);
  }
  if (line_.empty()) line_began_ = now;
  absl::StrAppend(&line_, text);
  // Of what is written over, the carriage return stays.
  const size_t state = static_cast<size_t>(LastState(line_).data() - line_.data());
  if (state > 1) line_.erase(0, state - 1);
  const bool waits =
      line_.find('\r') != std::string::npos || now - line_began_ < options_.line_wait;
  if (line_.empty() || (waits && line_.size() <= options_.line_bytes)) return;
  TakeLines(std::exchange(line_, ""));
}

void ProgramOutput::Finish() {
  TakeLines(std::exchange(line_, ""));
  if (within_line_) PassOn("\n");
  TellDropped();
}

void ProgramOutput::TakeLines(absl::string_view lines) {
  // What is written over has been passed on.
  const absl::string_view first = lines.substr(0, lines.find('\n'));
  if (within_line_ && LastState(first).data() != first.data()) PassOn("\n");
  const std::string text = LastStates(lines);
  absl::StrAppend(&tail_, text.substr(text.size() - std::min(text.size(), options_.tail_bytes)));
  if (tail_.size() > options_.tail_bytes) tail_.erase(0, tail_.size() - options_.tail_bytes);
  if (static_cast<double>(text.size()) > room_) {
    dropped_ += text.size();
    return;
  }
  room_ -= static_cast<double>(text.size());
  TellDropped();
  PassOn(text);
}

void ProgramOutput::PassOn(absl::string_view text) {
  if (text.empty()) return;
  pass_on_(text);
  within_line_ = text.back() != '\n';
}

void ProgramOutput::TellDropped() {
  const uint64_t dropped = std::exchange(dropped_, 0);
  if (dropped == 0) return;
  PassOn(absl::StrCat(within_line_ ? "\n" : "", "[", dropped,
                      " bytes of output were dropped here: the program prints faster than ",
                      options_.bytes_per_second >> 10, " KiB a second]\n"));
}

std::string ProgramOutput::Tail() const {
  const size_t line = tail_.find('\n');
  // Less than the limit is whole.
  const bool cut = tail_.size() == options_.tail_bytes;
  if (!cut || line == std::string::npos || line + 1 >= tail_.size()) return tail_;
  return tail_.substr(line + 1);
}

}  // namespace muster
