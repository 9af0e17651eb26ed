#include "server/coordinator/job/job_log.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/text/utf8.h"

namespace muster {
namespace {

// Most bytes of a log chunk of joined appends, and its largest share (1/16) of all kept bytes.
constexpr uint64_t kJoinedBytes = 4096;
constexpr uint64_t kJoinedShare = 16;
// Longest time that a log chunk spans, so that one time describes all of its text.
constexpr int64_t kJoinedMs = 1000;
// Bounds the memory that log chunks take beside their text.
constexpr size_t kMostChunks = 1 << 16;

}  // namespace

bool JobLog::Joins(uint64_t offset, uint64_t bytes, const Origin& origin) const {
  if (chunks_.empty()) return false;
  const Chunk& last = chunks_.back();
  return last.offset + last.text.size() == offset && last.origin.slot == origin.slot &&
         origin.unix_ms - last.origin.unix_ms < kJoinedMs &&
         last.text.size() + bytes <= std::min(kJoinedBytes, max_bytes_ / kJoinedShare);
}

JobLog::Change JobLog::Append(absl::string_view text, const Origin& origin) {
  absl::string_view kept = text;
  if (kept.size() > max_bytes_) kept = SkipToCharacter(kept.substr(kept.size() - max_bytes_));
  const uint64_t offset = end_ + text.size() - kept.size();
  if (!Joins(offset, kept.size(), origin)) chunks_.push_back({offset, "", origin});
  chunks_.back().text.append(kept.data(), kept.size());
  end_ += text.size();
  bytes_ += kept.size();
  Change change;
  change.last = chunks_.back();
  while ((bytes_ > max_bytes_ || chunks_.size() > kMostChunks) && chunks_.size() > 1) {
    change.dropped.push_back(chunks_.front().offset);
    bytes_ -= chunks_.front().text.size();
    chunks_.pop_front();
  }
  return change;
}

void JobLog::Restore(Chunk chunk) {
  // Offsets count bytes, so each invalid byte is replaced by exactly one.
  for (absl::string_view rest = chunk.text; !rest.empty();) {
    const CodePoint first = FirstCodePoint(rest);
    if (first.value == kInvalidCodePoint) chunk.text[chunk.text.size() - rest.size()] = '?';
    rest.remove_prefix(first.bytes);
  }
  end_ = chunk.offset + chunk.text.size();
  bytes_ += chunk.text.size();
  chunks_.push_back(std::move(chunk));
}

JobLog::Excerpt JobLog::Read(uint64_t offset, uint64_t max_bytes,
                             std::optional<uint32_t> slot) const {
  Excerpt out{.offset = offset, .next = offset};
  // Begin with the last log chunk that starts at or before the offset.
  auto it = std::upper_bound(chunks_.begin(), chunks_.end(), offset,
                             [](uint64_t o, const Chunk& c) { return o < c.offset; });
  if (it != chunks_.begin()) --it;
  for (; it != chunks_.end() && out.text.size() < max_bytes; ++it) {
    const uint64_t chunk_end = it->offset + it->text.size();
    if (chunk_end <= out.next) continue;
    const uint64_t begin = std::max(it->offset, out.next);
    const bool wanted = !slot.has_value() || it->origin.slot == slot;
    const uint64_t missing =
        begin - out.next + (it->origin.slot.has_value() || wanted ? 0 : chunk_end - begin);
    // A gap is reported only before the first text of an excerpt.
    if (missing > 0 && !out.text.empty()) break;
    out.missing += missing;
    if (!wanted) {
      out.next = chunk_end;
      continue;
    }
    const absl::string_view rest = SkipToCharacter(
        absl::string_view(it->text).substr(static_cast<size_t>(begin - it->offset)));
    const absl::string_view taken = CutUtf8(rest, max_bytes - out.text.size());
    if (out.text.empty()) out.offset = chunk_end - rest.size();
    absl::StrAppend(&out.text, taken);
    out.next = chunk_end - rest.size() + taken.size();
    if (taken.size() < rest.size()) break;
  }
  if (out.text.empty()) out.offset = out.next;
  return out;
}

uint64_t JobLog::StartOf(const Part& part) const {
  uint64_t lines = 0;
  // True once text of the part follows: a line break at the very end begins no line.
  bool text_follows = false;
  uint64_t start = end_;
  if (part.tail_lines == 0) return start;
  for (auto it = chunks_.rbegin(); it != chunks_.rend(); ++it) {
    if (it->origin.unix_ms < part.since_unix_ms) return start;
    start = it->offset;
    if (part.slot.has_value() && it->origin.slot != part.slot) continue;
    if (!part.tail_lines.has_value()) continue;
    for (size_t i = it->text.size(); i-- > 0; text_follows = true) {
      if (it->text[i] == '\n' && text_follows && ++lines == *part.tail_lines) {
        return it->offset + i + 1;
      }
    }
  }
  return 0;
}

}  // namespace muster
