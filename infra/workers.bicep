// Long-lived workers in Container Apps. They process the same queues as the
// function app, and serve no part of the API.

@description('Name of the container app.')
param name string

@description('Part of the other names.')
param token string
param location string
param tags object

@description('Image with its tag.')
param image string

@description('Registry that the identity pulls the image from; empty for a public image.')
param registryServer string

@description('Identity of the workers: its resource id and its client id.')
param identityId string
param clientId string

@description('Identities that check scaling: the app and the workers.')
param scalers array

@description('The workers use Service Bus.')
param usesBus bool

@description('There is a second namespace of Service Bus.')
param hasSecondary bool

@description('Storage account of the queues.')
param storageName string

@description('Queues that workers process.')
param queues array

@minValue(0)
param minimum int

@minValue(1)
param maximum int

@description('Give the scalers the right to change this container app, not only to read it.')
param scaleApply bool

@description('Environment variables: the settings that the function app has, too.')
param settings object

@description('The addresses of secrets in a vault, by the names of their settings.')
param secrets object

@description('Subnet of the Container Apps environment; empty for none.')
param subnetId string
param zoneRedundant bool

@description('Workspace of the logs.')
param workspaceId string

// Built-in roles, for this container app alone.
var containerAppsContributor = '358470bc-b998-42bd-ab17-a7e34c199c0f'
var reader = 'acdd72a7-3385-48ef-bd42-f606fba81ae7'
var scalerRole = scaleApply ? containerAppsContributor : reader

// So many messages in one queue start one worker more. It is a safety net for
// when no check of scaling runs, so it is far above what one worker can work on at once.
var messagesPerWorker = 1000

var allSettings = union(
  settings,
  {
    AzureWebJobsStorage__clientId: clientId
    AZURE_CLIENT_ID: clientId
  },
  usesBus ? { ServiceBus__clientId: clientId } : {},
  hasSecondary ? { ServiceBusSecondary__clientId: clientId } : {}
)

var plainVariables = [for setting in items(allSettings): { name: setting.key, value: setting.value }]
var secretVariables = [for secret in items(secrets): { name: secret.key, secretRef: last(split(secret.value, '/')) }]

// Logs go through diagnostic settings, which need no key of the workspace.
resource host 'Microsoft.App/managedEnvironments@2025-01-01' = {
  name: 'cae-kennel-${token}'
  location: location
  tags: tags
  properties: {
    appLogsConfiguration: { destination: 'azure-monitor' }
    vnetConfiguration: empty(subnetId) ? null : { infrastructureSubnetId: subnetId, internal: true }
    workloadProfiles: [{ name: 'Consumption', workloadProfileType: 'Consumption' }]
    zoneRedundant: zoneRedundant
  }
}

resource logs 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  name: 'workspace'
  scope: host
  properties: {
    workspaceId: workspaceId
    logs: [
      { category: 'ContainerAppConsoleLogs', enabled: true }
      { category: 'ContainerAppSystemLogs', enabled: true }
    ]
  }
}

resource worker 'Microsoft.App/containerApps@2025-01-01' = {
  name: name
  location: location
  tags: tags
  identity: {
    type: 'UserAssigned'
    userAssignedIdentities: {
      '${identityId}': {}
    }
  }
  properties: {
    environmentId: host.id
    workloadProfileName: 'Consumption'
    configuration: {
      activeRevisionsMode: 'Single'
      secrets: [for secret in items(secrets): { name: last(split(secret.value, '/')), keyVaultUrl: secret.value, identity: identityId }]
      registries: empty(registryServer) ? [] : [{ server: registryServer, identity: identityId }]
    }
    template: {
      // The drain of a worker and 25 s; see "Containers" in docs/operations.md.
      terminationGracePeriodSeconds: 45
      containers: [
        {
          name: 'worker'
          image: image
          env: concat(plainVariables, secretVariables)
          resources: {
            cpu: json('0.5')
            memory: '1Gi'
          }
          probes: [
            {
              type: 'Liveness'
              httpGet: { path: '/healthz', port: 8080 }
              periodSeconds: 10
              failureThreshold: 3
            }
            {
              type: 'Readiness'
              httpGet: { path: '/readyz', port: 8080 }
              periodSeconds: 10
              failureThreshold: 3
            }
          ]
        }
      ]
      scale: {
        minReplicas: minimum
        maxReplicas: max(minimum, maximum)
        rules: [
          for queue in queues: {
            name: queue
            azureQueue: {
              accountName: storageName
              queueName: queue
              queueLength: messagesPerWorker
              identity: identityId
            }
          }
        ]
      }
    }
  }
}

resource scaler 'Microsoft.Authorization/roleAssignments@2022-04-01' = [for identity in scalers: {
  name: guid(worker.id, identity.id, scalerRole)
  scope: worker
  properties: {
    principalId: identity.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', scalerRole)
  }
}]
