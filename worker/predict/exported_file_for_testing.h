#ifndef MUSTER_WORKER_PREDICT_EXPORTED_FILE_FOR_TESTING_H_
#define MUSTER_WORKER_PREDICT_EXPORTED_FILE_FOR_TESTING_H_

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace muster {

// The bytes of a file as `muster export` writes it.
class ExportedFile {
 public:
  template <typename Element>
  ExportedFile& Add(const std::string& name, const std::string& dtype,
                    const std::vector<int64_t>& shape, absl::Span<const Element> values) {
    const size_t begin = data_.size();
    data_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Element));
    header_[name] = {{"dtype", dtype}, {"shape", shape}, {"data_offsets", {begin, data_.size()}}};
    return *this;
  }

  ExportedFile& AddMetadata(const std::string& name, const std::string& value) {
    header_["__metadata__"][name] = value;
    return *this;
  }

  std::string bytes() const {
    std::string header = header_.dump();
    header.append((8 - header.size() % 8) % 8, ' ');
    const uint64_t length = header.size();
    return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + header + data_;
  }

 private:
  nlohmann::ordered_json header_ = nlohmann::ordered_json::object();
  std::string data_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_PREDICT_EXPORTED_FILE_FOR_TESTING_H_
