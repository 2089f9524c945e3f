#include "server/http/monitor_service.h"

#include <string>
#include <utility>
#include <vector>

#include "server/http/host_check.h"
#include "server/http/http_listener.h"
#include "store/base/status_macros.h"

namespace remora {

absl::StatusOr<std::unique_ptr<MonitorService>> MonitorService::Start(const Options& options,
                                                                      MonitorFacts facts,
                                                                      const Clock& clock) {
  REMORA_ASSIGN_OR_RETURN(HttpListener listener, ListenForHttp(options.address, options.others_may_reach));
  std::vector<std::string> hosts = options.hosts;
  hosts.push_back(listener.host);
  std::unique_ptr<MonitorService> service(new MonitorService);
  service->address_ = std::move(listener.address);
  service->monitor_ = std::make_unique<Monitor>(std::move(facts), clock);
  REMORA_ASSIGN_OR_RETURN(
      service->server_,
      HttpServer::Start(std::move(listener.socket), service->monitor_->MakeResponder(HostCheck(hosts))));
  return service;
}

}  // namespace remora
