#ifndef MUSTER_COMMON_PAGE_PAGE_ASSETS_H_
#define MUSTER_COMMON_PAGE_PAGE_ASSETS_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace muster {

// A file of the page, as it is in the binary.
struct PageAsset {
  absl::string_view name;
  absl::string_view content;
};

// Returns all files of the page, by name. index.html is the page itself.
absl::Span<const PageAsset> PageAssets();

}  // namespace muster

#endif  // MUSTER_COMMON_PAGE_PAGE_ASSETS_H_
