#include "common/packing/packing_figures.h"

#include <algorithm>

namespace muster {
PackingFigures FiguresOfStream(absl::Span<const uint64_t> ends, int64_t context) {
  const auto T = static_cast<uint64_t>(context);
  PackingFigures figures;
  figures.windows = ends.empty() ? 0 : (ends.back() - 1) / T;
  const uint64_t used = figures.windows * T;
  uint64_t begin = 0;
  for (const uint64_t document_end : ends) {
    const uint64_t end = std::min(document_end, used);
    if (begin >= end) break;
    const uint64_t first_cut = std::min(end, (begin / T + 1) * T);
    const uint64_t last_cut = std::max(first_cut, end / T * T);
    figures.squares += SquareOf(first_cut - begin) + SquareOf(end - last_cut) +
                       static_cast<double>((last_cut - first_cut) / T) * SquareOf(T);
    begin = end;
  }
  return figures;
}

}  // namespace muster
