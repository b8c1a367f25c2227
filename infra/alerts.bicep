// Alerts and who gets them. "Alerts" in docs/operations.md has the action for
// each.

@description('Part of all names.')
param token string
param location string
param tags object

@description('Address that receives the alerts.')
param email string

@description('There are workers, whose logs are in a table of their own.')
param hasWorkers bool

@description('There is a second namespace, which has the backlog queues.')
param hasSecondary bool

@description('The functions of timers that run at least every five minutes.')
param timers array

@description('Workspace that the logs of all processes are in.')
param workspaceId string
param storageId string
param busIds array

// Each process logs its part; the one that checks scaling logs the problems of
// all, once a minute. Functions write to the first table, workers to the second.
// Azure Monitor accepts no union of tables in an alert, so each has its own.
var problemLogs = concat(
  [{ name: 'problem', table: 'AppTraces', line: 'Message' }],
  hasWorkers ? [{ name: 'problem-workers', table: 'ContainerAppConsoleLogs', line: 'Log' }] : []
)

var problemAlerts = [for logs in problemLogs: {
  name: logs.name
  description: 'A process reports a problem, such as dead letters in a queue.'
  severity: 2
  frequency: 'PT5M'
  window: 'PT10M'
  threshold: 0
  dimension: 'code'
  query: '${logs.table} | where ${logs.line} has "the app has a problem" | extend code = tostring(parse_json(${logs.line}).code)'
}]

var otherAlerts = [
  {
    name: 'failures'
    description: 'Invocations fail, or HTTP calls get a status of 5xx.'
    severity: 2
    frequency: 'PT5M'
    window: 'PT5M'
    threshold: 5
    dimension: 'OperationName'
    query: 'AppRequests | where Success == false and ResultCode !startswith "4"'
  }
  {
    name: 'timers'
    description: 'A timer has had no successful run for three of its periods, so no function of the app may run.'
    severity: 1
    frequency: 'PT5M'
    window: 'PT15M'
    threshold: 0
    dimension: 'OperationName'
    query: 'AppRequests | where Success == true | summarize seen = make_set(OperationName) | mv-expand OperationName = set_difference(dynamic(["${join(timers, '", "')}"]), seen) to typeof(string) | where isnotempty(OperationName)'
  }
  {
    name: 'logs'
    description: 'The daily limit of logs is reached. Until it is reset no more are accepted, and no other alert on logs fires.'
    severity: 3
    frequency: 'PT5M'
    window: 'PT5M'
    threshold: 0
    dimension: 'Category'
    query: '_LogOperation | where Category =~ "Ingestion" and Detail has "OverQuota"'
  }
]

var backlogBusId = hasSecondary ? busIds[1] : ''

resource people 'Microsoft.Insights/actionGroups@2023-01-01' = {
  name: 'ag-kennel-${token}'
  location: 'global'
  tags: tags
  properties: {
    groupShortName: 'kennel'
    enabled: true
    emailReceivers: [
      {
        name: 'operators'
        emailAddress: email
        useCommonAlertSchema: true
      }
    ]
  }
}

// A table exists after its first line, so queries cannot be validated before.
resource onLogs 'Microsoft.Insights/scheduledQueryRules@2023-12-01' = [for alert in concat(problemAlerts, otherAlerts): {
  name: 'kennel-${alert.name}-${token}'
  location: location
  tags: tags
  kind: 'LogAlert'
  properties: {
    displayName: 'Kennel: ${alert.name}'
    description: alert.description
    severity: alert.severity
    enabled: true
    scopes: [workspaceId]
    evaluationFrequency: alert.frequency
    windowSize: alert.window
    criteria: {
      allOf: [
        {
          query: alert.query
          timeAggregation: 'Count'
          operator: 'GreaterThan'
          threshold: alert.threshold
          dimensions: [{ name: alert.dimension, operator: 'Include', values: ['*'] }]
          failingPeriods: { numberOfEvaluationPeriods: 1, minFailingPeriodsToAlert: 1 }
        }
      ]
    }
    autoMitigate: true
    skipQueryValidation: true
    actions: { actionGroups: [people.id] }
  }
}]

resource throttled 'Microsoft.Insights/metricAlerts@2018-03-01' = {
  name: 'kennel-throttled-${token}'
  location: 'global'
  tags: tags
  properties: {
    description: 'Storage rejects requests because there are too many.'
    severity: 3
    enabled: true
    scopes: [storageId]
    evaluationFrequency: 'PT5M'
    windowSize: 'PT5M'
    criteria: {
      'odata.type': 'Microsoft.Azure.Monitor.SingleResourceMultipleMetricCriteria'
      allOf: [
        {
          name: 'Transactions'
          criterionType: 'StaticThresholdCriterion'
          metricNamespace: 'Microsoft.Storage/storageAccounts'
          metricName: 'Transactions'
          dimensions: [
            {
              name: 'ResponseType'
              operator: 'Include'
              values: [
                'ServerBusyError'
                'ClientThrottlingError'
                'ClientAccountRequestThrottlingError'
                'ClientAccountBandwidthThrottlingError'
              ]
            }
          ]
          timeAggregation: 'Total'
          operator: 'GreaterThan'
          threshold: 100
          skipMetricValidation: true
        }
      ]
    }
    autoMitigate: true
    actions: [{ actionGroupId: people.id }]
  }
}

resource busDeadLetters 'Microsoft.Insights/metricAlerts@2018-03-01' = [for (id, i) in busIds: {
  name: 'kennel-bus-dead-letters-${i}-${token}'
  location: 'global'
  tags: tags
  properties: {
    description: 'Service Bus has dead letters.'
    severity: 2
    enabled: true
    scopes: [id]
    evaluationFrequency: 'PT5M'
    windowSize: 'PT5M'
    criteria: {
      'odata.type': 'Microsoft.Azure.Monitor.SingleResourceMultipleMetricCriteria'
      allOf: [
        {
          name: 'DeadletteredMessages'
          criterionType: 'StaticThresholdCriterion'
          metricNamespace: 'Microsoft.ServiceBus/namespaces'
          metricName: 'DeadletteredMessages'
          timeAggregation: 'Average'
          operator: 'GreaterThan'
          threshold: 0
        }
      ]
    }
    autoMitigate: true
    actions: [{ actionGroupId: people.id }]
  }
}]

// A queue counts if it is not empty for the whole window: a message that is
// moved within a minute is what the backlog is for. The problem backlog_old needs
// a process that reads the backlog, and this does not.
resource backlog 'Microsoft.Insights/metricAlerts@2018-03-01' = if (hasSecondary) {
  name: 'kennel-backlog-${token}'
  location: 'global'
  tags: tags
  properties: {
    description: 'Messages stay in a backlog queue, so the first namespace does not accept them or nothing moves them.'
    severity: 2
    enabled: true
    scopes: [backlogBusId]
    evaluationFrequency: 'PT5M'
    windowSize: 'PT15M'
    criteria: {
      'odata.type': 'Microsoft.Azure.Monitor.SingleResourceMultipleMetricCriteria'
      allOf: [
        {
          name: 'ActiveMessages'
          criterionType: 'StaticThresholdCriterion'
          metricNamespace: 'Microsoft.ServiceBus/namespaces'
          metricName: 'ActiveMessages'
          dimensions: [{ name: 'EntityName', operator: 'Include', values: ['*'] }]
          timeAggregation: 'Minimum'
          operator: 'GreaterThan'
          threshold: 0
        }
      ]
    }
    autoMitigate: true
    actions: [{ actionGroupId: people.id }]
  }
}
