#ifndef MUSTER_SERVER_PAGE_HTTP_MESSAGE_H_
#define MUSTER_SERVER_PAGE_HTTP_MESSAGE_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace muster {

// A request as it came; nothing in it is checked.
struct HttpRequest {
  std::string method;
  // The request line's target, not decoded: path and query.
  std::string target;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;

  // Returns the values of a header, whatever the case of its name.
  std::vector<absl::string_view> Values(absl::string_view name) const {
    std::vector<absl::string_view> values;
    for (const auto& [key, value] : headers) {
      if (absl::EqualsIgnoreCase(key, name)) values.push_back(value);
    }
    return values;
  }
};

struct HttpAnswer {
  int status = 200;
  std::string content_type;
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
};

// Answers requests. Thread-safe; may block.
class HttpService {
 public:
  virtual ~HttpService() = default;

  // Returns the answer to a request that is refused before its body is read; absent: Answer gives
  // it.
  virtual std::optional<HttpAnswer> Refuse(const HttpRequest& request) = 0;
  // Answers a request that was not refused. Only a POST has its body.
  virtual HttpAnswer Answer(const HttpRequest& request) = 0;
};

}  // namespace muster

#endif  // MUSTER_SERVER_PAGE_HTTP_MESSAGE_H_
