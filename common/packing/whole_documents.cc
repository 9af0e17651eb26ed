#include "common/packing/whole_documents.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace muster {
namespace {

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

// The windows that pieces share.
struct Fit {
  // The window of each piece; kNone for one of no length.
  std::vector<uint32_t> window_of;
  // The number of pieces in each window.
  std::vector<uint32_t> sizes;
};

// Puts pieces of these lengths into windows of `context`, the longest first.
Fit BestFitDecreasing(const std::vector<uint64_t>& lengths, uint64_t context) {
  std::vector<uint32_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return lengths[a] > lengths[b]; });
  Fit fit;
  fit.window_of.assign(lengths.size(), kNone);
  // Windows with room, by the room and their number.
  std::set<std::pair<uint64_t, uint32_t>> open;
  for (const uint32_t piece : order) {
    const uint64_t length = lengths[piece];
    if (length == 0) break;
    uint64_t room = context;
    auto window = static_cast<uint32_t>(fit.sizes.size());
    const auto tightest = open.lower_bound({length, 0});
    if (tightest == open.end()) {
      fit.sizes.push_back(0);
    } else {
      std::tie(room, window) = *tightest;
      open.erase(tightest);
    }
    fit.window_of[piece] = window;
    ++fit.sizes[window];
    if (room > length) open.emplace(room - length, window);
  }
  return fit;
}

}  // namespace

absl::StatusOr<std::unique_ptr<const WholeDocuments>> WholeDocuments::Create(
    absl::Span<const uint64_t> ends, int64_t context) {
  const auto T = static_cast<uint64_t>(context);
  // Each window but for the shared ones, of which there are fewer than documents, has T tokens.
  if (ends.size() >= kNone || (!ends.empty() && ends.back() / T + ends.size() >= kNone)) {
    return absl::InvalidArgumentError(absl::StrCat(
        ends.size(), " documents of ", ends.empty() ? 0 : ends.back(), " tokens make more windows ",
        "of ", context, " tokens than ", kNone, "; divide the data among several sources, or take ",
        "packing WITHIN_DOCUMENTS"));
  }
  auto windows = absl::WrapUnique(new WholeDocuments(ends, T));
  windows->documents_.reserve(ends.size());
  for (size_t first = 0; first < ends.size(); first += kBlock) {
    windows->AddBlock(first, std::min(ends.size(), first + kBlock));
  }
  windows->window_begins_.push_back(static_cast<uint32_t>(windows->documents_.size()));
  windows->documents_.shrink_to_fit();
  windows->window_begins_.shrink_to_fit();
  PackingFigures& figures = windows->figures_;
  figures.windows = static_cast<uint64_t>(windows->windows());
  figures.padding += figures.windows * T;
  figures.squares += static_cast<double>(figures.padding);
  return std::unique_ptr<const WholeDocuments>(std::move(windows));
}

void WholeDocuments::AddBlock(size_t first, size_t end) {
  std::vector<uint64_t> lengths(end - first);
  for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = PlacesOf(first + i) % context_;
  const Fit fit = BestFitDecreasing(lengths, context_);
  // Where the next document of each window goes; kNone: the window was not begun.
  std::vector<uint32_t> next(fit.sizes.size(), kNone);
  for (size_t i = 0; i < lengths.size(); ++i) {
    const auto document = static_cast<uint32_t>(first + i);
    const uint64_t places = PlacesOf(document);
    for (uint64_t full = 0; full < places / context_; ++full) {
      window_begins_.push_back(static_cast<uint32_t>(documents_.size()));
      documents_.push_back(document);
    }
    // Create adds the places of all windows.
    figures_.padding -= places;
    figures_.squares +=
        static_cast<double>(places / context_) * SquareOf(context_) + SquareOf(lengths[i]);
    const uint32_t window = fit.window_of[i];
    if (window == kNone) continue;
    if (next[window] == kNone) {
      next[window] = static_cast<uint32_t>(documents_.size());
      window_begins_.push_back(next[window]);
      documents_.resize(documents_.size() + fit.sizes[window]);
    }
    documents_[next[window]++] = document;
  }
}

void WholeDocuments::PiecesOf(int64_t window, std::vector<Piece>& pieces) const {
  pieces.clear();
  const uint32_t begin = window_begins_[window], end = window_begins_[window + 1];
  for (uint32_t i = begin; i < end; ++i) {
    const uint32_t document = documents_[i];
    const uint64_t places = PlacesOf(document);
    const uint64_t full = places / context_;
    pieces.push_back(
        {BeginOf(document) + full * context_, static_cast<int64_t>(places % context_)});
    if (full == 0 || end - begin > 1) continue;
    // Windows are in the order of their first documents, full ones of a document before its piece.
    const auto of_document =
        std::lower_bound(window_begins_.begin(), window_begins_.end() - 1, document,
                         [&](uint32_t at, uint32_t wanted) { return documents_[at] < wanted; });
    const auto number = static_cast<uint64_t>(window - (of_document - window_begins_.begin()));
    if (number < full) {
      pieces.back() = {BeginOf(document) + number * context_, static_cast<int64_t>(context_)};
    }
  }
}

}  // namespace muster
