// Everything that Kennel needs in a resource group. docs/infrastructure.md has
// the parameters, what they cost, and the reasons. A test holds the names in
// this file against those in the code and in functions/.
targetScope = 'resourceGroup'

@description('Name of the environment, such as dev or prod. It and the resource group determine the names of all resources.')
@minLength(2)
@maxLength(20)
param environmentName string

@description('Region of all resources but the secondary Service Bus namespace.')
param location string = resourceGroup().location

@description('Number of partition queues. Make the package with the same number: kennel package --partitions.')
@minValue(1)
@maxValue(32)
param partitions int = 4

@description('Prefix of the program: begins the names of its queues, tables and containers, so that several share an account. Lower-case letters and digits, first a letter. Make the package with the same: kennel package --prefix.')
@maxLength(20)
param prefix string = ''

@description('Memory of an instance of the function app, in MB.')
@allowed([512, 2048, 4096])
param instanceMemoryMB int = 2048

@description('Maximum number of instances for HTTP calls, and for each function of a queue or a timer.')
@minValue(1)
@maxValue(1000)
param maximumInstanceCount int = 100

@description('Number of HTTP calls that one instance serves at the same time. A caller that waits at a gate is one of them and needs little.')
@minValue(1)
@maxValue(1000)
param httpConcurrency int = 100

@description('Number of instances that always run for HTTP calls. With 0 the first call after a pause waits for a start.')
@minValue(0)
@maxValue(20)
param alwaysReadyInstances int = 0

@description('Spread the instances of the function app over the zones of the region, and those of the workers if vnetEnabled. Azure then bills two always-ready instances for each function of a queue or a timer, and for HTTP.')
param zoneRedundant bool = false

@description('Redundancy of the storage account.')
@allowed(['Standard_LRS', 'Standard_ZRS', 'Standard_GRS', 'Standard_RAGRS', 'Standard_GZRS', 'Standard_RAGZRS'])
param storageSku string = 'Standard_ZRS'

@description('Days for which deleted and overwritten blobs can be restored.')
@minValue(1)
@maxValue(365)
param softDeleteDays int = 7

@description('Tier of Service Bus. With vnetEnabled it is always Premium, because private endpoints need it.')
@allowed(['Standard', 'Premium'])
param serviceBusSku string = 'Standard'

@description('Region of a second Service Bus namespace, which stores messages while sends to the first one fail; empty for none.')
param secondaryLocation string = ''

@description('Number of backlog queues in the second namespace.')
@minValue(1)
@maxValue(100)
param backlogQueues int = 10

@description('Names of queues that the app sends messages to, in the first namespace. A slash in a name is written ~.')
param messageQueues array = []

@description('Time for which messageQueues recognise the copies of a message, of at most 7 days. It has to cover an outage and the time to move the backlog.')
param duplicateWindow string = 'P1D'

@description('Reach storage and Service Bus through private endpoints only.')
param vnetEnabled bool = false

@description('Addresses of the virtual network. Its first four /24 blocks are used.')
param vnetAddresses string = '10.0.0.0/16'

@description('Create a container registry for the image of the workers.')
param registryEnabled bool = false

@description('Image of the workers, such as REGISTRY.azurecr.io/kennel:v1.0.0; empty for no workers.')
param workerImage string = ''

@description('Addresses that may call the function app, such as 203.0.113.0/24; empty for all.')
param allowedAddresses array = []

@description('Minimum number of workers of a new container app. The scaling check may change it later; see workerExists.')
@minValue(0)
@maxValue(100)
param workerMinimum int = 1

@description('Maximum number of workers.')
@minValue(1)
@maxValue(300)
param workerMaximum int = 20

@description('The container app of the workers exists: keep its minimum instead of workerMinimum.')
param workerExists bool = false

@description('Let the scaling check change the minimum number of workers; otherwise it only reports what it would change.')
param scaleApply bool = false

@description('Client id of the app registration that people sign in with; empty for no sign-in.')
param authClientId string = ''

@description('Object id of a user, a group or a service principal that gets the same rights to data as the app, for local runs against this account; empty for none.')
param operatorId string = ''

@description('What operatorId is.')
@allowed(['User', 'Group', 'ServicePrincipal'])
param operatorType string = 'Group'

@description('Address that receives the alerts; empty for no alerts.')
param alertEmail string = ''

@description('Days for which logs are kept.')
@minValue(30)
@maxValue(730)
param logRetentionDays int = 30

@description('GB of logs a day, after which no more are accepted until the next day; -1 for no limit.')
@minValue(-1)
param logQuotaGB int = 1

@description('Log each request to storage, and send the log of the Functions host to the workspace as well.')
param diagnosticLogs bool = false

@description('More settings of docs/operations.md, for the function app and the workers. No secrets: use references to Key Vault.')
param settings object = {}

var token = uniqueString(resourceGroup().id, environmentName)
var tags = { 'azd-env-name': environmentName }
var hasWorkers = !empty(workerImage)
var signsIn = !empty(authClientId)
var packageContainer = 'app-package'
var workerName = 'ca-kennel-${token}'

// What the program declares; `kennel functions` writes it. A part that it does not
// use has no resources here, and the app no rights to them.
var declared = loadJsonContent('app.json')
var usesBus = contains(declared.roles, 'Azure Service Bus Data Owner')
var usesScale = contains(declared.parts, 'scale')
var hasSecondary = usesBus && !empty(secondaryLocation)

// The values of secrets are in a vault, where people put them; see docs/infrastructure.md.
// A plain setting has its value in the parameter settings, or the default of the program.
var secrets = filter(declared.settings, setting => setting.secret)
var hasSecrets = !empty(secrets)
var vaultName = 'kv-kennel-${token}'
var vaultUri = 'https://${vaultName}${environment().suffixes.keyvaultDns}/secrets/'
var secretIds = toObject(
  secrets,
  setting => setting.name,
  setting => '${vaultUri}${replace(toLower(setting.name), '_', '-')}'
)
var plain = filter(declared.settings, setting => !setting.secret)
var required = filter(plain, setting => setting.required)
var requiredPairs = [for setting in required: { name: setting.name, value: settings[setting.name] }]
var requiredValues = toObject(requiredPairs, pair => pair.name, pair => pair.value)
// Those of the app's timers that run at least every five minutes.
var functionNames = map(declared.functions, function => function.name)
var frequentTimers = intersection(['BatchSweep', 'ChannelSweep', 'QueueSweep', 'ScaleCheck', 'Syphon'], functionNames)
var hyphened = empty(prefix) ? '' : '${prefix}-'
var appContainers = map(declared.storage.containers, name => '${hyphened}${name}')
var containers = concat(appContainers, [packageContainer])
var tables = map(declared.storage.tables, name => '${prefix}${name}')
var firstPartition = 'work-0'
var hasPartitions = contains(declared.storage.queues, firstPartition)
var partitionQueues = [for n in range(0, hasPartitions ? partitions : 0): 'work-${n}']
var declaredQueues = filter(declared.storage.queues, name => !endsWith(name, '-poison') && !startsWith(name, 'kennel-'))
var workQueues = map(union(partitionQueues, declaredQueues), name => '${hyphened}${name}')
var poisonQueues = [for queue in workQueues: '${queue}-poison']
var queues = concat(workQueues, poisonQueues, ['${hyphened}kennel-doctor'])

// The first namespace carries the signals. Service Bus cannot change the tier of
// a namespace, so another tier has another name.
var busSku = vnetEnabled ? 'Premium' : serviceBusSku
var busName = 'sb-${toLower(busSku)}-${token}'
var namespaces = concat(
  usesBus ? [{ name: busName, location: location }] : [],
  hasSecondary ? [{ name: 'sb-${toLower(busSku)}2-${token}', location: secondaryLocation }] : []
)

// Azure Resource Manager writes a slash in the name of a queue as ~. The first of
// these is NAMESPACE/x-servicebus-transfer/0 for Service Bus.
var backlogNames = [for n in range(0, hasSecondary ? backlogQueues : 0): '${busName}~x-servicebus-transfer~${n}']
var never = 'P10675199DT2H48M5.4775807S'

// Built-in roles. The host needs the owner of blobs for its leases. Each process
// makes a subscription of its own, and backlog queues that are missing: only the
// owner of data has the right to.
var storageRoles = {
  blobDataOwner: 'b7e6dc6d-f1e8-4753-8033-0f276bb0955b'
  queueDataContributor: '974c5e8b-45b9-4653-ba55-5f855dd0fb88'
  tableDataContributor: '0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3'
}
var blobDataContributor = 'ba92f5b4-2d11-453d-a403-e96b0029c9fe'
var vaultSecretsUser = '4633458b-17de-408a-b874-0445c86b69e6'
var vaultSecretsOfficer = 'b86a8fe4-44ce-4948-aee5-eccb2c155cd7'
var busDataOwner = '090c5cfd-751d-490a-894a-3ce6f1109419'
var metricsPublisher = '3913510d-42f4-4e42-8a64-420c390055eb'
var registryPull = '7f951dda-4ed3-4680-a7ca-43fe172d538d'

// The function app, its host and the deployment of packages share it.
resource identity 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' = {
  name: 'id-kennel-${token}'
  location: location
  tags: tags
}

// The workers have no right to the package, which the function app runs, or to the
// keys of the host: who takes over a worker does not own the app.
resource workerIdentity 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' = if (hasWorkers) {
  name: 'id-kennel-worker-${token}'
  location: location
  tags: tags
}

// ---- storage

resource storage 'Microsoft.Storage/storageAccounts@2025-01-01' = {
  name: 'stkennel${token}'
  location: location
  tags: tags
  kind: 'StorageV2'
  sku: { name: storageSku }
  properties: {
    accessTier: 'Hot'
    allowSharedKeyAccess: false
    allowBlobPublicAccess: false
    allowCrossTenantReplication: false
    defaultToOAuthAuthentication: true
    minimumTlsVersion: 'TLS1_2'
    supportsHttpsTrafficOnly: true
    publicNetworkAccess: vnetEnabled ? 'Disabled' : 'Enabled'
    networkAcls: {
      defaultAction: vnetEnabled ? 'Deny' : 'Allow'
      bypass: 'None'
    }
  }
}

resource blobServices 'Microsoft.Storage/storageAccounts/blobServices@2025-01-01' = {
  parent: storage
  name: 'default'
  properties: {
    isVersioningEnabled: true
    deleteRetentionPolicy: {
      enabled: true
      days: softDeleteDays
    }
    containerDeleteRetentionPolicy: {
      enabled: true
      days: softDeleteDays
    }
  }
}

resource blobContainers 'Microsoft.Storage/storageAccounts/blobServices/containers@2025-01-01' = [for name in containers: {
  parent: blobServices
  name: name
  properties: { publicAccess: 'None' }
}]

resource queueServices 'Microsoft.Storage/storageAccounts/queueServices@2025-01-01' = {
  parent: storage
  name: 'default'
}

@batchSize(10)
resource storageQueues 'Microsoft.Storage/storageAccounts/queueServices/queues@2025-01-01' = [for name in queues: {
  parent: queueServices
  name: name
}]

resource tableServices 'Microsoft.Storage/storageAccounts/tableServices@2025-01-01' = {
  parent: storage
  name: 'default'
}

resource storageTables 'Microsoft.Storage/storageAccounts/tableServices/tables@2025-01-01' = [for name in tables: {
  parent: tableServices
  name: name
}]

// Deletes versions that were overwritten or deleted, and nothing else: the app
// itself deletes what it does not need any more.
resource oldVersions 'Microsoft.Storage/storageAccounts/managementPolicies@2025-01-01' = {
  parent: storage
  name: 'default'
  properties: {
    policy: {
      rules: [
        {
          name: 'old-versions'
          enabled: true
          type: 'Lifecycle'
          definition: {
            filters: { blobTypes: ['blockBlob'] }
            actions: {
              version: {
                delete: { daysAfterCreationGreaterThan: softDeleteDays }
              }
            }
          }
        }
      ]
    }
  }
  dependsOn: [blobServices]
}

resource storageAccess 'Microsoft.Authorization/roleAssignments@2022-04-01' = [for role in items(storageRoles): {
  name: guid(storage.id, identity.id, role.value)
  scope: storage
  properties: {
    principalId: identity.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', role.value)
  }
}]

resource workerStorageAccess 'Microsoft.Authorization/roleAssignments@2022-04-01' = [for role in [storageRoles.queueDataContributor, storageRoles.tableDataContributor]: if (hasWorkers) {
  name: guid(storage.id, workerIdentity.id, role)
  scope: storage
  properties: {
    principalId: workerIdentity!.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', role)
  }
}]

resource workerBlobAccess 'Microsoft.Authorization/roleAssignments@2022-04-01' = [for (name, i) in appContainers: if (hasWorkers) {
  name: guid(blobContainers[i].id, workerIdentity.id, blobDataContributor)
  scope: blobContainers[i]
  properties: {
    principalId: workerIdentity!.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', blobDataContributor)
  }
}]

resource operatorStorageAccess 'Microsoft.Authorization/roleAssignments@2022-04-01' = [for role in items(storageRoles): if (!empty(operatorId)) {
  name: guid(storage.id, operatorId, role.value)
  scope: storage
  properties: {
    principalId: operatorId
    principalType: operatorType
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', role.value)
  }
}]

// ---- Service Bus

resource bus 'Microsoft.ServiceBus/namespaces@2024-01-01' = [for namespace in namespaces: {
  name: namespace.name
  location: namespace.location
  tags: tags
  sku: {
    name: busSku
    tier: busSku
    capacity: busSku == 'Premium' ? 1 : null
  }
  properties: {
    disableLocalAuth: true
    minimumTlsVersion: '1.2'
    publicNetworkAccess: vnetEnabled ? 'Disabled' : 'Enabled'
  }
}]

// A signal only wakes, so an old one is worthless.
resource signals 'Microsoft.ServiceBus/namespaces/topics@2024-01-01' = [for name in usesBus ? ['signals'] : []: {
  parent: bus[0]
  name: name
  properties: {
    defaultMessageTimeToLive: 'PT5M'
  }
}]

// No number of deliveries, and no time, may remove a message from the backlog.
@batchSize(10)
resource backlog 'Microsoft.ServiceBus/namespaces/queues@2024-01-01' = [for name in backlogNames: {
  parent: bus[hasSecondary ? 1 : 0]
  name: name
  properties: {
    lockDuration: 'PT1M'
    maxDeliveryCount: 2147483647
    maxSizeInMegabytes: 5120
    defaultMessageTimeToLive: never
    autoDeleteOnIdle: never
    deadLetteringOnMessageExpiration: true
    requiresSession: false
    enableBatchedOperations: true
  }
}]

// A message whose first send had no answer may be stored twice. Its copies have
// the same message id, and these queues keep one.
@batchSize(10)
resource messages 'Microsoft.ServiceBus/namespaces/queues@2024-01-01' = [for name in usesBus ? messageQueues : []: {
  parent: bus[0]
  name: name
  properties: {
    lockDuration: 'PT1M'
    maxSizeInMegabytes: 5120
    deadLetteringOnMessageExpiration: true
    requiresDuplicateDetection: true
    duplicateDetectionHistoryTimeWindow: duplicateWindow
  }
}]

resource busAccess 'Microsoft.Authorization/roleAssignments@2022-04-01' = [for (namespace, i) in namespaces: {
  name: guid(bus[i].id, identity.id, busDataOwner)
  scope: bus[i]
  properties: {
    principalId: identity.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', busDataOwner)
  }
}]

resource workerBusAccess 'Microsoft.Authorization/roleAssignments@2022-04-01' = [for (namespace, i) in namespaces: if (hasWorkers) {
  name: guid(bus[i].id, workerIdentity.id, busDataOwner)
  scope: bus[i]
  properties: {
    principalId: workerIdentity!.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', busDataOwner)
  }
}]

resource operatorBusAccess 'Microsoft.Authorization/roleAssignments@2022-04-01' = [for (namespace, i) in namespaces: if (!empty(operatorId)) {
  name: guid(bus[i].id, operatorId, busDataOwner)
  scope: bus[i]
  properties: {
    principalId: operatorId
    principalType: operatorType
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', busDataOwner)
  }
}]

// ---- secrets

resource vault 'Microsoft.KeyVault/vaults@2023-07-01' = if (hasSecrets) {
  name: vaultName
  location: location
  tags: tags
  properties: {
    tenantId: tenant().tenantId
    sku: { family: 'A', name: 'standard' }
    enableRbacAuthorization: true
    enableSoftDelete: true
  }
}

resource vaultAccess 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (hasSecrets) {
  name: guid(vault.id, identity.id, vaultSecretsUser)
  scope: vault
  properties: {
    principalId: identity.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', vaultSecretsUser)
  }
}

resource workerVaultAccess 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (hasSecrets && hasWorkers) {
  name: guid(vault.id, workerIdentity.id, vaultSecretsUser)
  scope: vault
  properties: {
    principalId: workerIdentity!.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', vaultSecretsUser)
  }
}

// The operator puts the values there.
resource operatorVaultAccess 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (hasSecrets && !empty(operatorId)) {
  name: guid(vault.id, operatorId, vaultSecretsOfficer)
  scope: vault
  properties: {
    principalId: operatorId
    principalType: operatorType
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', vaultSecretsOfficer)
  }
}

// ---- logs

resource workspace 'Microsoft.OperationalInsights/workspaces@2025-02-01' = {
  name: 'log-kennel-${token}'
  location: location
  tags: tags
  properties: {
    sku: { name: 'PerGB2018' }
    retentionInDays: logRetentionDays
    workspaceCapping: { dailyQuotaGb: logQuotaGB }
    features: { disableLocalAuth: true }
  }
}

resource insights 'Microsoft.Insights/components@2020-02-02' = {
  name: 'appi-kennel-${token}'
  location: location
  tags: tags
  kind: 'web'
  properties: {
    Application_Type: 'web'
    WorkspaceResourceId: workspace.id
    IngestionMode: 'LogAnalytics'
    DisableLocalAuth: true
  }
}

resource insightsAccess 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(insights.id, identity.id, metricsPublisher)
  scope: insights
  properties: {
    principalId: identity.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', metricsPublisher)
  }
}

resource busLogs 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = [for (namespace, i) in namespaces: {
  name: 'workspace'
  scope: bus[i]
  properties: {
    workspaceId: workspace.id
    logs: [{ category: 'OperationalLogs', enabled: true }]
  }
}]

resource blobLogs 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = if (diagnosticLogs) {
  name: 'workspace'
  scope: blobServices
  properties: {
    workspaceId: workspace.id
    logs: [{ categoryGroup: 'allLogs', enabled: true }]
  }
}

resource queueLogs 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = if (diagnosticLogs) {
  name: 'workspace'
  scope: queueServices
  properties: {
    workspaceId: workspace.id
    logs: [{ categoryGroup: 'allLogs', enabled: true }]
  }
}

resource tableLogs 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = if (diagnosticLogs) {
  name: 'workspace'
  scope: tableServices
  properties: {
    workspaceId: workspace.id
    logs: [{ categoryGroup: 'allLogs', enabled: true }]
  }
}

resource appLogs 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = if (diagnosticLogs) {
  name: 'workspace'
  scope: app
  properties: {
    workspaceId: workspace.id
    logs: [{ category: 'FunctionAppLogs', enabled: true }]
  }
}

// ---- network

module network 'network.bicep' = if (vnetEnabled) {
  name: 'network'
  params: {
    token: token
    location: location
    tags: tags
    addresses: vnetAddresses
    storageId: storage.id
    busIds: [for (namespace, i) in namespaces: bus[i].id]
  }
}

// ---- function app

resource plan 'Microsoft.Web/serverfarms@2024-11-01' = {
  name: 'plan-kennel-${token}'
  location: location
  tags: tags
  kind: 'functionapp'
  sku: {
    name: 'FC1'
    tier: 'FlexConsumption'
  }
  properties: {
    reserved: true
    zoneRedundant: zoneRedundant
  }
}

// The app trusts the platform's headers about callers if WEBSITE_AUTH_ENABLED is
// true. The host prefers a setting of that name to what it does itself, so any
// caller could then claim to be an operator.
var givenSettings = toObject(
  filter(items(settings), setting => !startsWith(toLower(setting.key), 'website_auth_')),
  setting => setting.key,
  setting => setting.value
)

// What the function app and the workers have in common, besides their identity.
var commonSettings = union(
  givenSettings,
  requiredValues,
  {
    AzureWebJobsStorage__blobServiceUri: storage.properties.primaryEndpoints.blob
    AzureWebJobsStorage__queueServiceUri: storage.properties.primaryEndpoints.queue
    AzureWebJobsStorage__tableServiceUri: storage.properties.primaryEndpoints.table
    AzureWebJobsStorage__credential: 'managedidentity'
  },
  hasPartitions ? { KENNEL_PARTITIONS: string(partitions) } : {},
  empty(prefix) ? {} : { KENNEL_PREFIX: prefix },
  usesBus
    ? {
        ServiceBus__fullyQualifiedNamespace: '${busName}.servicebus.windows.net'
        ServiceBus__credential: 'managedidentity'
      }
    : {},
  hasSecondary
    ? {
        ServiceBusSecondary__fullyQualifiedNamespace: '${last(namespaces).name}.servicebus.windows.net'
        ServiceBusSecondary__credential: 'managedidentity'
        KENNEL_BACKLOG_QUEUES: string(backlogQueues)
      }
    : {},
  hasWorkers && usesScale
    ? {
        KENNEL_SCALE_TARGET: resourceId('Microsoft.App/containerApps', workerName)
        KENNEL_SCALE_APPLY: scaleApply ? 'true' : 'false'
      }
    : {}
)

var callers = [for (address, i) in allowedAddresses: {
  name: 'allowed-${i}'
  ipAddress: address
  action: 'Allow'
  priority: 100
}]

resource app 'Microsoft.Web/sites@2024-11-01' = {
  name: 'func-kennel-${token}'
  location: location
  tags: union(tags, { 'azd-service-name': 'app' })
  kind: 'functionapp,linux'
  identity: {
    type: 'UserAssigned'
    userAssignedIdentities: {
      '${identity.id}': {}
    }
  }
  properties: {
    serverFarmId: plan.id
    httpsOnly: true
    clientAffinityEnabled: false
    keyVaultReferenceIdentity: identity.id
    virtualNetworkSubnetId: vnetEnabled ? network!.outputs.appSubnetId : null
    siteConfig: union(
      {
        minTlsVersion: '1.2'
        scmMinTlsVersion: '1.2'
      },
      empty(allowedAddresses) ? {} : { ipSecurityRestrictions: callers, ipSecurityRestrictionsDefaultAction: 'Deny' }
    )
    functionAppConfig: {
      runtime: {
        name: 'custom'
        version: '1.0'
      }
      deployment: {
        storage: {
          type: 'blobContainer'
          value: '${storage.properties.primaryEndpoints.blob}${packageContainer}'
          authentication: {
            type: 'UserAssignedIdentity'
            userAssignedIdentityResourceId: identity.id
          }
        }
      }
      scaleAndConcurrency: {
        instanceMemoryMB: instanceMemoryMB
        maximumInstanceCount: maximumInstanceCount
        alwaysReady: alwaysReadyInstances == 0 ? [] : [{ name: 'http', instanceCount: alwaysReadyInstances }]
        triggers: {
          http: { perInstanceConcurrency: httpConcurrency }
        }
      }
    }
  }
  // The host reads storage when it starts, and fails without its roles. The app
  // creates backlog queues that are missing, which conflicts with a deployment
  // of them.
  dependsOn: [blobContainers, storageAccess, busAccess, insightsAccess, vaultAccess, backlog]
}

var clientSettings = union(
  {
    AzureWebJobsStorage__clientId: identity.properties.clientId
    AZURE_CLIENT_ID: identity.properties.clientId
  },
  usesBus ? { ServiceBus__clientId: identity.properties.clientId } : {},
  hasSecondary ? { ServiceBusSecondary__clientId: identity.properties.clientId } : {}
)

// The workers have no use for what is added here. The host keeps a whole body in
// memory before the app can refuse its caller, several times and for each call,
// so it accepts 8 MiB. The parameter settings can raise that.
resource appSettings 'Microsoft.Web/sites/config@2024-11-01' = {
  parent: app
  name: 'appsettings'
  properties: union(
    { FUNCTIONS_REQUEST_BODY_SIZE_LIMIT: '8388608' },
    commonSettings,
    toObject(items(secretIds), secret => secret.key, secret => '@Microsoft.KeyVault(SecretUri=${secret.value})'),
    clientSettings,
    {
      APPLICATIONINSIGHTS_CONNECTION_STRING: insights.properties.ConnectionString
      APPLICATIONINSIGHTS_AUTHENTICATION_STRING: 'ClientId=${identity.properties.clientId};Authorization=AAD'
    },
    signsIn
      ? {
          OVERRIDE_USE_MI_FIC_ASSERTION_CLIENTID: identity.properties.clientId
          WEBSITE_AUTH_AAD_ALLOWED_TENANTS: tenant().tenantId
        }
      : {}
  )
}

// Callers with a function key are not signed in, so the platform admits all
// calls. The host checks the keys, and the app the roles of those who signed in.
// Instead of a secret, the identity of the app proves the app registration.
resource auth 'Microsoft.Web/sites/config@2024-11-01' = {
  parent: app
  name: 'authsettingsV2'
  properties: {
    platform: { enabled: signsIn }
    globalValidation: {
      requireAuthentication: false
      unauthenticatedClientAction: 'AllowAnonymous'
    }
    httpSettings: { requireHttps: true }
    login: {
      tokenStore: { enabled: false }
    }
    identityProviders: {
      azureActiveDirectory: signsIn
        ? {
            enabled: true
            registration: {
              openIdIssuer: '${environment().authentication.loginEndpoint}${tenant().tenantId}/v2.0'
              clientId: authClientId
              clientSecretSettingName: 'OVERRIDE_USE_MI_FIC_ASSERTION_CLIENTID'
            }
            validation: {
              allowedAudiences: ['api://${authClientId}']
            }
          }
        : { enabled: false }
    }
  }
  dependsOn: [appSettings]
}

resource noFtp 'Microsoft.Web/sites/basicPublishingCredentialsPolicies@2024-11-01' = {
  parent: app
  name: 'ftp'
  properties: { allow: false }
}

resource noScmPassword 'Microsoft.Web/sites/basicPublishingCredentialsPolicies@2024-11-01' = {
  parent: app
  name: 'scm'
  properties: { allow: false }
}

// ---- workers

resource registry 'Microsoft.ContainerRegistry/registries@2025-04-01' = if (registryEnabled) {
  name: 'crkennel${token}'
  location: location
  tags: tags
  sku: { name: 'Basic' }
  properties: {
    adminUserEnabled: false
  }
}

resource registryAccess 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (registryEnabled && hasWorkers) {
  name: guid(registry.id, workerIdentity.id, registryPull)
  scope: registry
  properties: {
    principalId: workerIdentity!.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', registryPull)
  }
}

module replicas 'replicas.bicep' = if (hasWorkers) {
  name: 'replicas'
  params: {
    workerName: workerName
    exists: workerExists
    initial: workerMinimum
  }
}

module workers 'workers.bicep' = if (hasWorkers) {
  name: 'workers'
  params: {
    name: workerName
    token: token
    location: location
    tags: tags
    image: workerImage
    registryServer: registryEnabled ? registry!.properties.loginServer : ''
    identityId: workerIdentity.id
    clientId: workerIdentity!.properties.clientId
    usesBus: usesBus
    hasSecondary: hasSecondary
    secrets: secretIds
    scalers: usesScale
      ? [
          { id: identity.id, principalId: identity.properties.principalId }
          { id: workerIdentity.id, principalId: workerIdentity!.properties.principalId }
        ]
      : []
    storageName: storage.name
    queues: workQueues
    minimum: replicas!.outputs.minimum
    maximum: workerMaximum
    scaleApply: scaleApply
    settings: commonSettings
    subnetId: vnetEnabled ? network!.outputs.workerSubnetId : ''
    zoneRedundant: zoneRedundant && vnetEnabled
    workspaceId: workspace.id
  }
  dependsOn: [storageQueues, workerStorageAccess, workerBlobAccess, workerBusAccess, workerVaultAccess, registryAccess, backlog]
}

// ---- alerts

module alerts 'alerts.bicep' = if (!empty(alertEmail)) {
  name: 'alerts'
  params: {
    token: token
    location: location
    tags: tags
    email: alertEmail
    timers: frequentTimers
    hasWorkers: hasWorkers
    hasSecondary: hasSecondary
    workspaceId: workspace.id
    storageId: storage.id
    busIds: [for (namespace, i) in namespaces: bus[i].id]
  }
}

output SERVICE_APP_NAME string = app.name
output SERVICE_APP_URI string = 'https://${app.properties.defaultHostName}'
output AZURE_STORAGE_ACCOUNT_NAME string = storage.name
output AZURE_SERVICE_BUS_NAME string = usesBus ? bus[0].name : ''
output AZURE_CONTAINER_REGISTRY_ENDPOINT string = registryEnabled ? registry!.properties.loginServer : ''
output AZURE_VAULT_NAME string = hasSecrets ? vaultName : ''
output AZURE_LOG_WORKSPACE_NAME string = workspace.name
output SERVICE_APP_IDENTITY_NAME string = identity.name
output SERVICE_APP_IDENTITY_PRINCIPAL_ID string = identity.properties.principalId
output SERVICE_WORKER_NAME string = hasWorkers ? workerName : ''
