#include "server/coordinator/job_log.h"

#include <algorithm>
#include <utility>

#include "common/text/utf8.h"

namespace muster {
namespace {

// Short appends are joined up to so many bytes, and so large a part of what is kept.
constexpr uint64_t kJoinedBytes = 4096;
constexpr uint64_t kJoinedShare = 16;

}  // namespace

JobLog::Change JobLog::Append(absl::string_view text) {
  absl::string_view kept = text;
  if (kept.size() > max_bytes_) kept = SkipToCharacter(kept.substr(kept.size() - max_bytes_));
  const uint64_t offset = end_ + text.size() - kept.size();
  const uint64_t most = std::min(kJoinedBytes, max_bytes_ / kJoinedShare);
  const bool joins = !chunks_.empty() && offset == end_ &&
                     chunks_.back().offset + chunks_.back().text.size() == offset &&
                     chunks_.back().text.size() + kept.size() <= most;
  if (!joins) chunks_.push_back({offset, ""});
  chunks_.back().text.append(kept.data(), kept.size());
  end_ += text.size();
  bytes_ += kept.size();
  Change change;
  change.last = chunks_.back();
  while (bytes_ > max_bytes_ && chunks_.size() > 1) {
    change.dropped.push_back(chunks_.front().offset);
    bytes_ -= chunks_.front().text.size();
    chunks_.pop_front();
  }
  return change;
}

void JobLog::Restore(Chunk chunk) {
  // Offsets count bytes, so each byte has one in its place.
  for (absl::string_view rest = chunk.text; !rest.empty();) {
    const CodePoint first = FirstCodePoint(rest);
    if (first.value == kInvalidCodePoint) chunk.text[chunk.text.size() - rest.size()] = '?';
    rest.remove_prefix(first.bytes);
  }
  end_ = chunk.offset + chunk.text.size();
  bytes_ += chunk.text.size();
  chunks_.push_back(std::move(chunk));
}

JobLog::Chunk JobLog::Read(uint64_t offset, uint64_t max_bytes) const {
  Chunk out{std::max(offset, chunks_.empty() ? end_ : chunks_.front().offset), ""};
  // The last chunk that starts at or before the offset.
  auto it = std::upper_bound(chunks_.begin(), chunks_.end(), out.offset,
                             [](uint64_t o, const Chunk& c) { return o < c.offset; });
  if (it != chunks_.begin()) --it;
  for (; it != chunks_.end() && out.text.size() < max_bytes; ++it) {
    const uint64_t at = out.offset + out.text.size();
    const uint64_t chunk_end = it->offset + it->text.size();
    if (chunk_end <= at) continue;
    if (it->offset > at) {
      // A gap: what comes after it is another chunk.
      if (!out.text.empty()) break;
      out.offset = it->offset;
    }
    const uint64_t skip = out.offset + out.text.size() - it->offset;
    out.text.append(it->text, skip, max_bytes - out.text.size());
  }
  const absl::string_view whole = SkipToCharacter(out.text);
  out.offset += out.text.size() - whole.size();
  out.text = std::string(CutUtf8(whole, whole.size() - UnfinishedBytes(whole)));
  return out;
}

}  // namespace muster
