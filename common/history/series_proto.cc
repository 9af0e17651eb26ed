#include "common/history/series_proto.h"

#include "proto/metrics.pb.h"

namespace muster {

SeriesPoint FromProto(const v1::SeriesPoint& message) {
  const bool one = message.values() == 1;
  return {.first_step = message.first_step(),
          .last_step = message.last_step(),
          .values = message.values(),
          .min = one ? message.last() : message.min(),
          .max = one ? message.last() : message.max(),
          .mean = one ? message.last() : message.mean(),
          .last = message.last(),
          .unix_ms = message.unix_ms()};
}

void ToProto(const SeriesPoint& point, v1::SeriesPoint& message) {
  message.set_first_step(point.first_step);
  message.set_last_step(point.last_step);
  message.set_values(point.values);
  if (point.values > 1) {
    message.set_min(point.min);
    message.set_max(point.max);
    message.set_mean(point.mean);
  }
  message.set_last(point.last);
  message.set_unix_ms(point.unix_ms);
}

}  // namespace muster
